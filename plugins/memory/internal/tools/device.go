package tools

import (
	"crypto/rand"
	"io"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// Device says whether a path names one of the devices that the tree does not
// hold but scripts expect: stdin, stdout, stderr, zero, random, urandom and full.
// It returns the name below /dev. (/dev/null is in every namespace.)
func Device(dir, p string) (name string, ok bool) {
	if !strings.HasPrefix(p, "/") {
		if !strings.HasPrefix(dir, "/dev") {
			return "", false
		}
		p = dir + "/" + p
	}
	name, ok = strings.CutPrefix(path.Clean(p), "/dev/")
	if !ok {
		return "", false
	}
	switch name {
	case "fd/0":
		return "stdin", true
	case "fd/1":
		return "stdout", true
	case "fd/2":
		return "stderr", true
	case "stdin", "stdout", "stderr", "zero", "random", "urandom", "full":
		return name, true
	}
	return "", false
}

// Descriptor says whether a path names a descriptor from 3 on, which only Call.Descriptor can open, and which.
func Descriptor(dir, p string) (name string, ok bool) {
	if !strings.HasPrefix(p, "/") {
		if !strings.HasPrefix(dir, "/dev") {
			return "", false
		}
		p = dir + "/" + p
	}
	name, ok = strings.CutPrefix(path.Clean(p), "/dev/fd/")
	n, err := strconv.Atoi(name)
	return name, ok && err == nil && n >= 3
}

// descriptor opens a descriptor from 3 on.
func (t *tool) descriptor(name string, writes bool) (io.ReadWriteCloser, error) {
	if t.Call.Descriptor == nil {
		return nil, syscall.EBADF
	}
	return t.Call.Descriptor(name, writes)
}

func (t *tool) openDevice(name string) (io.ReadCloser, error) {
	switch name {
	case "stdin":
		return io.NopCloser(t.in), nil
	case "stdout", "stderr":
		return nil, syscall.EACCES
	}
	return io.NopCloser(source{t, DeviceReader(name)}), nil
}

func (t *tool) createDevice(name string) (io.WriteCloser, error) {
	switch name {
	case "stdout":
		return nopWriteCloser{sink{t, t.Stdout}}, nil
	case "stderr":
		return nopWriteCloser{sink{t, t.Stderr}}, nil
	case "stdin":
		return nil, syscall.EACCES
	}
	return DeviceWriter(name), nil
}

type nopWriteCloser struct{ io.Writer }

func (nopWriteCloser) Close() error { return nil }

// DeviceReader reads zero, full, random or urandom.
func DeviceReader(name string) io.Reader {
	if strings.HasSuffix(name, "random") {
		return rand.Reader
	}
	return zeros{}
}

// DeviceWriter writes zero, full, random or urandom.
func DeviceWriter(name string) io.WriteCloser {
	if name == "full" {
		return nopWriteCloser{full{}}
	}
	return nopWriteCloser{io.Discard}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }
