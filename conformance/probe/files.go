package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

func catFile(args []string) (int, error) {
	if len(args) != 1 {
		return 0, errUsage
	}
	f, err := os.Open(args[0])
	if err != nil {
		return 1, nil // a case asks whether it can be read
	}
	defer f.Close()
	if err := pass(f); err != nil {
		return 1, nil
	}
	return 0, nil
}

// appendFile appends to a file and prints the same.
func appendFile(args []string) (int, error) {
	if len(args) != 2 {
		return 0, errUsage
	}
	f, err := os.OpenFile(args[0], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	if _, err := f.WriteString(args[1]); err != nil {
		f.Close()
		return 0, err
	}
	if err := f.Close(); err != nil {
		return 0, err
	}
	_, err = os.Stdout.WriteString(args[1])
	return 0, err
}

// seen is what the system says of a file.
type seen struct {
	Path  string `json:"path"`
	Mode  uint32 `json:"mode"` // as Go has it
	Size  int64  `json:"size"`
	UID   int    `json:"uid"`
	GID   int    `json:"gid"`
	Links int    `json:"links"`
	Time  int64  `json:"time"` // seconds since 1970
	Link  string `json:"link,omitempty"`
}

// tree prints a line of JSON for the path itself, as ".", and for all below it.
func tree(args []string) (int, error) {
	if len(args) != 1 {
		return 0, errUsage
	}
	out := json.NewEncoder(os.Stdout)
	return 0, filepath.WalkDir(args[0], func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(args[0], path)
		if err != nil {
			return err
		}
		s := seen{Path: filepath.ToSlash(rel), Mode: uint32(info.Mode()), Size: info.Size(), Time: info.ModTime().Unix()}
		s.UID, s.GID, s.Links = owner(info)
		if info.Mode()&fs.ModeSymlink != 0 {
			if s.Link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		return out.Encode(s)
	})
}

// await waits until a file is there.
func await(args []string) (int, error) {
	if len(args) != 1 {
		return 0, errUsage
	}
	for {
		if _, err := os.Lstat(args[0]); err == nil {
			return 0, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func mkdir(args []string) (int, error) {
	return each(args, func(p string) error { return os.MkdirAll(p, 0o755) })
}

func rm(args []string) (int, error) {
	return each(args, func(p string) error {
		if _, err := os.Lstat(p); err != nil {
			return err
		}
		return os.RemoveAll(p)
	})
}

func each(args []string, f func(string) error) (int, error) {
	if len(args) == 0 {
		return 0, errUsage
	}
	for _, a := range args {
		if err := f(a); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func mv(args []string) (int, error)      { return two(args, os.Rename) }
func symlink(args []string) (int, error) { return two(args, os.Symlink) }
func link(args []string) (int, error)    { return two(args, os.Link) }

// writeFile makes or replaces the content of a file: PATH TEXT.
func writeFile(args []string) (int, error) {
	return two(args, func(path, text string) error { return os.WriteFile(path, []byte(text), 0o644) })
}

// chmod sets a file's permissions, octal, without setuid and the like: MODE PATH.
func chmod(args []string) (int, error) {
	return two(args, func(mode, path string) error {
		n, err := strconv.ParseUint(mode, 8, 32)
		if err != nil {
			return err
		}
		return os.Chmod(path, fs.FileMode(n))
	})
}

// printOwner prints a file's owner as uid:gid.
func printOwner(args []string) (int, error) {
	return each(args, func(path string) error {
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		uid, gid, _ := owner(info)
		_, err = fmt.Printf("%d:%d\n", uid, gid)
		return err
	})
}

// fill writes so many zeros to a new file, PATH BYTES, and takes it away again, also when there is no room for them.
func fill(args []string) (int, error) {
	return two(args, func(path, size string) error {
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil {
			return err
		}
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		zeros := make([]byte, 1<<20)
		for n > 0 && err == nil {
			var wrote int
			wrote, err = f.Write(zeros[:min(n, int64(len(zeros)))])
			n -= int64(wrote)
		}
		return errors.Join(err, f.Close(), os.Remove(path))
	})
}

// truncate cuts or grows a file: BYTES PATH.
func truncate(args []string) (int, error) {
	return two(args, func(size, path string) error {
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil {
			return err
		}
		return os.Truncate(path, n)
	})
}

// chown gives a file to somebody: UID GID PATH.
func chown(args []string) (int, error) {
	if len(args) != 3 {
		return 0, errUsage
	}
	uid, err := strconv.Atoi(args[0])
	if err != nil {
		return 0, err
	}
	gid, err := strconv.Atoi(args[1])
	if err != nil {
		return 0, err
	}
	return 0, os.Lchown(args[2], uid, gid)
}

func two(args []string, f func(a, b string) error) (int, error) {
	if len(args) != 2 {
		return 0, errUsage
	}
	return 0, f(args[0], args[1])
}
