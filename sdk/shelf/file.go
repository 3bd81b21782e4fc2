//go:build linux

package shelf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// WriteFile replaces a file, for this user alone, so that after a crash or a loss of power at any moment either the old or the new one is
// there, whole. The new one is in place when it returns nil.
func WriteFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	return syncDir(filepath.Dir(path))
}

// Remove removes a file or a directory with all that is in it; what is not there is a success. Where something is mounted at it or
// below nothing is done, and the error is a *MountedError: to remove it would be to remove what is mounted. The path must be absolute and
// free of symbolic links, as those of a Shelf are.
func Remove(path string) error {
	if err := mounted(path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// MountedError says that something is mounted in a directory that was to be removed.
type MountedError struct {
	Path string // of the mount
}

func (e *MountedError) Error() string {
	return fmt.Sprintf("%s is still mounted, and removing it would remove what is mounted there: unmount it first", e.Path)
}

// mounted is a *MountedError if anything is mounted at dir or below, as this process sees it.
func mounted(dir string) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("whether anything is mounted below %s: %w", dir, err)
	}
	for line := range bytes.Lines(table) {
		fields := strings.Fields(string(line))
		if len(fields) < 5 {
			continue
		}
		if at := unescape(fields[4]); at == dir || strings.HasPrefix(at, dir+"/") {
			return &MountedError{Path: at}
		}
	}
	return nil
}

// unescape reads a path as the kernel writes it: spaces and the like in octal.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
