package job

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"syscall"
	"unicode/utf8"
)

// readFile reads a regular file, and at most one byte more than is taken. Anything else could make the reader wait for ever, or never end.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name) // before it is opened, which some devices take for a request
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, irregular(name, info)
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe that took its place must not block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, irregular(name, info)
	}
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

func irregular(name string, info os.FileInfo) error {
	if info.IsDir() {
		return fmt.Errorf("%s is a directory; name a file in it", name)
	}
	return fmt.Errorf("%s is not a regular file", name)
}

// notText finds the first byte that no text in UTF-8 has; -1: there is none.
func notText(src []byte) int {
	nul := bytes.IndexByte(src, 0)
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if i == nul || r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}
