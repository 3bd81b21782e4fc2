//go:build wasip1

// Command probe is what tests run as a WASI program: the first argument says what it does.
package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

func main() {
	what := ""
	if len(os.Args) > 1 {
		what = os.Args[1]
	}
	args := os.Args[min(len(os.Args), 2):]
	if err := run(what, args); err != nil {
		os.Stderr.WriteString("probe: " + err.Error() + "\n")
		os.Exit(1)
	}
}

func run(what string, args []string) error {
	switch what {
	case "args":
		say(strconv.Itoa(len(os.Args)), strings.Join(os.Args, "|"))
	case "env":
		env := os.Environ()
		sort.Strings(env)
		say(env...)
	case "cwd":
		dir, err := os.Getwd()
		say(dir)
		return err
	case "exit":
		n, _ := strconv.Atoi(args[0])
		os.Exit(n)
	case "cat":
		if len(args) == 0 {
			_, err := io.Copy(os.Stdout, os.Stdin)
			return err
		}
		for _, name := range args {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			os.Stdout.Write(b)
		}
	case "err":
		os.Stderr.WriteString(args[0])
	case "write":
		return os.WriteFile(args[0], []byte(args[1]), 0o644)
	case "readable": // tells the error instead of failing
		_, err := os.ReadFile(args[0])
		say(reason(err))
	case "writable":
		say(reason(os.WriteFile(args[0], []byte("x"), 0o644)))
	case "files":
		return files(args[0])
	case "list":
		return list(args[0])
	case "spin":
		say("spinning")
		for i := 0; ; i++ {
			if i < 0 {
				say("never")
			}
		}
	case "sleep":
		say("sleeping")
		time.Sleep(time.Hour)
	case "nap":
		time.Sleep(10 * time.Millisecond)
		say("awake")
	case "flood":
		block := []byte(strings.Repeat("y\n", 4<<10))
		for {
			if _, err := os.Stdout.Write(block); err != nil {
				return err
			}
		}
	case "alloc":
		mib, _ := strconv.Atoi(args[0])
		var all [][]byte
		for range mib {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4 << 10 {
				b[i] = 1
			}
			all = append(all, b)
		}
		say("has", strconv.Itoa(len(all)))
		if len(args) > 1 { // keep it until stdin ends
			_, err := io.Copy(io.Discard, os.Stdin)
			return err
		}
	case "open":
		for i := 0; ; i++ {
			if _, err := os.Open("/"); err != nil {
				say("stopped", strconv.FormatBool(i > 100))
				return nil
			}
		}
	default:
		return errors.New("do what? " + what)
	}
	return nil
}

func say(lines ...string) { os.Stdout.WriteString(strings.Join(lines, "\n") + "\n") }

// reason is an error without the path.
func reason(err error) string {
	if err == nil {
		return "fine"
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return err.Error()
}

func list(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		say(e.Type().String() + " " + e.Name())
	}
	return err
}

// files does to files what programs do to them, below dir, and says what it sees.
func files(dir string) error {
	at := func(name string) string { return dir + "/" + name }
	when := time.Unix(1234567890, 0)
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"mkdir", func() error { return os.MkdirAll(at("a/b/c"), 0o755) }},
		{"create", func() error { return os.WriteFile(at("a/f"), []byte("hello"), 0o644) }},
		{"exclusive", func() error {
			_, err := os.OpenFile(at("a/f"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
			if !errors.Is(err, fs.ErrExist) {
				return errors.Join(errors.New("made again"), err)
			}
			return nil
		}},
		{"append", func() error {
			f, err := os.OpenFile(at("a/f"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString(" world")
			return errors.Join(err, f.Close())
		}},
		{"in place", func() error {
			f, err := os.OpenFile(at("a/f"), os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte("J"), 0); err != nil {
				return err
			}
			if _, err := f.Seek(6, io.SeekStart); err != nil {
				return err
			}
			rest, err := io.ReadAll(f)
			say(string(rest))
			return err
		}},
		{"truncate", func() error { return os.Truncate(at("a/f"), 5) }},
		{"chtimes", func() error { return os.Chtimes(at("a/f"), when, when) }},
		{"stat", func() error {
			info, err := os.Stat(at("a/f"))
			if err != nil {
				return err
			}
			say(strconv.FormatInt(info.Size(), 10), strconv.FormatInt(info.ModTime().Unix(), 10))
			return nil
		}},
		{"symlink", func() error { return os.Symlink("f", at("a/soft")) }},
		{"readlink", func() error {
			target, err := os.Readlink(at("a/soft"))
			say(target)
			return err
		}},
		{"lstat", func() error {
			info, err := os.Lstat(at("a/soft"))
			if err == nil && info.Mode().Type() != fs.ModeSymlink {
				return errors.New("is no link")
			}
			return err
		}},
		{"through the link", func() error {
			b, err := os.ReadFile(at("a/soft"))
			say(string(b))
			return err
		}},
		{"link", func() error { return os.Link(at("a/f"), at("a/hard")) }},
		{"same", func() error {
			x, err := os.Stat(at("a/f"))
			if err != nil {
				return err
			}
			y, err := os.Stat(at("a/hard"))
			if err == nil && !os.SameFile(x, y) {
				return errors.New("not the same file")
			}
			return err
		}},
		{"rename", func() error { return os.Rename(at("a/hard"), at("a/b/moved")) }},
		{"rename dir", func() error { return os.Rename(at("a/b"), at("d")) }},
		{"remove", func() error { return os.Remove(at("a/soft")) }},
		{"remove full", func() error {
			if os.Remove(at("a")) == nil {
				return errors.New("removed")
			}
			return nil
		}},
		{"remove all", func() error { return os.RemoveAll(at("d/c")) }},
	} {
		if err := step.do(); err != nil {
			return errors.New(step.name + ": " + err.Error())
		}
	}
	return nil
}
