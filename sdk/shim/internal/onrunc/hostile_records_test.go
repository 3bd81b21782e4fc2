//go:build linux

package onrunc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

const canary = "canary-that-no-container-may-see"

// TestHostileRecords has root in the container make of the records what it likes, and then kill the keeper. Who reads them from outside
// neither hangs nor leaves the volume nor is told an exit of another process.
func TestHostileRecords(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "canary")
	if err := os.WriteFile(outside, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(id string) string {
		return fmt.Sprintf(`{"ID":%q,"Token":%q,"StartedAt":"2026-01-01T00:00:00Z"}`, id, sdk.NewToken())
	}
	segment := func(length uint32, stream byte, position uint64, data string) string {
		b := binary.LittleEndian.AppendUint32(nil, length)
		b = append(b, stream, 0, 0, 0)
		b = binary.LittleEndian.AppendUint64(b, position)
		b = binary.LittleEndian.AppendUint64(b, 0)
		return string(b) + data
	}
	const first = "0000000000000000.seg"
	hostile := map[string]func(p string) error{ // p is the directory of the process
		"p is a FIFO":         func(p string) error { return replaced(filepath.Dir(p), fifo) },
		"p is a file":         func(p string) error { return replaced(filepath.Dir(p), text(canary[:3])) },
		"p leads outside":     func(p string) error { return replaced(filepath.Dir(p), link(filepath.Dir(outside))) },
		"p leads up":          func(p string) error { return replaced(filepath.Dir(p), link("../..")) },
		"process is a FIFO":   func(p string) error { return replaced(p, fifo) },
		"process is a link":   func(p string) error { return replaced(p, link(filepath.Dir(outside))) },
		"process is itself":   func(p string) error { return replaced(p, link("said")) },
		"start is a FIFO":     func(p string) error { return replaced(p+"/start", fifo) },
		"start leads outside": func(p string) error { return replaced(p+"/start", link(outside)) },
		"start is a device":   func(p string) error { return replaced(p+"/start", zero) },
		"start is huge":       func(p string) error { return replaced(p+"/start", sparse(1<<40)) },
		"start is another's":  func(p string) error { return replaced(p+"/start", text(start("other"))) },
		"start is garbage":    func(p string) error { return replaced(p+"/start", text("\x00\xff{[[[[")) },
		"start is deep":       func(p string) error { return replaced(p+"/start", text(strings.Repeat("[", 60_000))) },
		"exit is a FIFO":      func(p string) error { return replaced(p+"/exit", fifo) },
		"exit leads outside":  func(p string) error { return replaced(p+"/exit", link(outside)) },
		"exit is huge":        func(p string) error { return replaced(p+"/exit", sparse(1<<40)) },
		"exit ends nowhere": func(p string) error {
			return replaced(p+"/exit", text(`{"Code":0,"Reason":1,"End":9223372036854775807}`))
		},
		"exit ends below":     func(p string) error { return replaced(p+"/exit", text(`{"Code":0,"Reason":1,"End":-5}`)) },
		"journal is a FIFO":   func(p string) error { return replaced(p+"/j", fifo) },
		"journal is a file":   func(p string) error { return replaced(p+"/j", text("")) },
		"journal is a device": func(p string) error { return replaced(p+"/j", zero) },
		"journal leads away":  func(p string) error { return replaced(p+"/j", link(filepath.Dir(outside))) },
		"segment is a FIFO":   func(p string) error { return replaced(p+"/j/"+first, fifo) },
		"segment leads away":  func(p string) error { return replaced(p+"/j/"+first, link(outside)) },
		"segment is a device": func(p string) error { return replaced(p+"/j/"+first, zero) },
		"segment is huge":     func(p string) error { return replaced(p+"/j/"+first, sparse(1<<42)) },
		"segment is longer":   func(p string) error { return replaced(p+"/j/"+first, text(segment(1<<31, 1, 0, "abc"))) },
		"segment says less":   func(p string) error { return replaced(p+"/j/"+first, text(segment(0, 1, 0, "abc"))) },
		"segment is shuffled": func(p string) error {
			return replaced(p+"/j/"+first, text(segment(3, 1, 3, "def")+segment(3, 1, 0, "abc")))
		},
		"segment is cut": func(p string) error { return os.Truncate(p+"/j/"+first, 25) },
		"segments far away": func(p string) error {
			return replaced(p+"/j/3fffffffffffffff.seg", text(segment(3, 1, 1<<62-1, "abc")))
		},
		"segments beyond":    func(p string) error { return replaced(p+"/j/ffffffffffffffff.seg", text("abc")) },
		"segments are many":  func(p string) error { return crowd(p + "/j") },
		"processes are many": func(p string) error { return crowd(filepath.Dir(p)) },
	}
	b := newBox(t, setting{initMode: true})
	for _, spec := range []sdk.ProcessSpec{counted("said", "echo kept; exit 5"), counted("fine", "echo fine; exit 6"), counted("long", "echo out; sleep 1000")} {
		b.check(b.StartProcess(t.Context(), b.id, spec))
	}
	for _, id := range []sdk.ProcessID{"said", "fine"} {
		testkit.Until(t, "it has ended", func() bool { p, err := b.listed(t.Context(), id); return err == nil && p.State == sdk.ProcessExited })
	}
	b.check(unix.Kill(b.keeper(), unix.SIGKILL))
	testkit.Until(t, "all commands are gone", func() bool { return len(b.commands()) == 0 })
	for name, spoil := range hostile {
		t.Run(name, func(t *testing.T) {
			scratch := filepath.Join(t.TempDir(), "scratch")
			b.check(os.Mkdir(scratch, 0o700))
			b.check(os.Mkdir(scratch+"/p", 0o700))
			for _, id := range []string{"said", "fine", "long"} {
				b.check(os.CopyFS(scratch+"/p/"+id, os.DirFS(b.scratch+"/p/"+id)))
			}
			if err := spoil(scratch + "/p/said"); err != nil {
				t.Fatal(err)
			}
			told := make(chan string, 1)
			ctx := testkit.Context(t)
			go func() { told <- readAll(ctx, scratch) }()
			select {
			case s := <-told:
				if strings.Contains(s, canary) || strings.Contains(s, "wrong: ") {
					t.Error(brief(s))
				}
				if !strings.HasPrefix(name, "p") && !strings.Contains(s, `fine: "fine\n" 6`) {
					t.Errorf("what was not touched is not told: %s", brief(s))
				}
			case <-ctx.Done():
				t.Error("reading the records does not end")
				unblock(scratch)
				<-told
			}
		})
	}
}

// readAll tells all that records tell, from outside.
func readAll(ctx context.Context, scratch string) string {
	root, err := os.OpenRoot(scratch)
	if err != nil {
		return "wrong: " + err.Error()
	}
	defer root.Close()
	r := shim.Remains(root.FS())
	var told strings.Builder
	all, err := r.ListProcesses()
	fmt.Fprintln(&told, len(all), err)
	if len(all) > sdk.MaxProcesses {
		fmt.Fprintln(&told, "wrong: a list of", len(all))
	}
	for _, id := range []sdk.ProcessID{"fine", "said", "long"} {
		s, bytes := newStory(0), 0
		s.hooks.Output = func(records []sdk.Record) error {
			for _, r := range records {
				bytes += len(r.Data)
			}
			if bytes > 1<<20 {
				return errors.New("that is more than was written")
			}
			return nil
		}
		err := r.FollowProcess(ctx, id, 0, s.follow())
		fmt.Fprintf(&told, "%s: %q", id, s.stdout())
		if s.exit != nil {
			fmt.Fprintf(&told, " %d", s.exit.Code)
		}
		fmt.Fprintln(&told, " gaps", s.gaps, err)
		if s.wrong != nil || errors.Is(err, context.DeadlineExceeded) || id == "long" && s.exit != nil {
			fmt.Fprintln(&told, "wrong:", id, s.wrong)
		}
	}
	return told.String()
}

// The things that can be in a file's place.
func fifo(name string) error { return unix.Mkfifo(name, 0o666) }
func zero(name string) error { return unix.Mknod(name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) }
func text(s string) func(string) error {
	return func(name string) error { return os.WriteFile(name, []byte(s), 0o600) }
}
func link(to string) func(string) error {
	return func(name string) error { return os.Symlink(to, name) }
}
func sparse(size int64) func(string) error {
	return func(name string) error { return errors.Join(text("{")(name), os.Truncate(name, size)) }
}

func replaced(name string, by func(string) error) error {
	return errors.Join(os.RemoveAll(name), by(name))
}

// crowd fills a directory with names.
func crowd(dir string) error {
	for i := range 10_000 {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprintf("a%d", i)), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// unblock has whoever opens a FIFO go on.
func unblock(dir string) {
	_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type() == fs.ModeNamedPipe {
			for range 8 {
				if fd, err := unix.Open(name, unix.O_RDWR|unix.O_NONBLOCK, 0); err == nil {
					defer unix.Close(fd)
				}
			}
		}
		return nil
	})
}
