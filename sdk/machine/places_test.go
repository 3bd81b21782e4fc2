//go:build linux

package machine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestPlaces finds directories as a container would, and makes those that are missing.
func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.MkdirAll(in("root/var/run"), 0o755), os.MkdirAll(in("open/sub"), 0o755), os.MkdirAll(in("sealed/sub"), 0o755), os.Mkdir(in("outside"), 0o755),
		os.Symlink("/var", in("root/v")), os.Symlink("run", in("root/var/here")), os.Symlink("../../../..", in("root/var/up")),
		os.Symlink("b", in("root/a")), os.Symlink("a", in("root/b")), os.WriteFile(in("root/file"), nil, 0o644),
		os.Symlink(in("outside"), in("root/far")), os.Symlink("/mnt/sealed/sub", in("open/over")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p, err := newPlaces(in("root"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for _, m := range []struct {
		dir, at string
		fixed   bool
	}{{"open", "/mnt", false}, {"sealed", "/mnt/sealed", true}} {
		at, err := p.find(m.at)
		if err == nil {
			err = p.mount(in(m.dir), at, m.fixed)
		}
		if at != m.at || err != nil {
			t.Fatalf("mounting at %s: %s, %v", m.at, at, err)
		}
	}
	for path, want := range map[string]string{
		"/":                   "/",
		"/new/deep":           "/new/deep",
		"/v/run":              "/var/run",
		"/v/here/new":         "/var/run/new",
		"/v/up/new":           "/new",
		"/far/x":              in("outside") + "/x", // in the root, not out there
		"/mnt/sub/new":        "/mnt/sub/new",
		"/mnt/over":           "/mnt/sealed/sub",
		"/mnt/sealed/../new2": "/mnt/new2",
		"/a/x":                "",
		"/file/x":             "",
		"/file":               "",
		"/mnt/sealed/new":     "",
		"/mnt/over/new":       "",
	} {
		got, err := p.find(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, %v; want %q", path, got, err, want)
		}
	}
	for name, there := range map[string]bool{
		"root/new/deep": true, "root/var/run/new": true, "open/sub/new": true, "root/mnt/sub": false, "open/sealed": true, "open/new2": true,
		"sealed/new": false, "outside/x": false, "root" + dir + "/outside/x": true,
	} {
		if _, err := os.Lstat(in(name)); (err == nil) != there || err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, want it there: %v", name, err, there)
		}
	}
}

// TestBusybox has what scripts expect.
func TestBusybox(t *testing.T) {
	options(t) // root, and CI has busybox
	dir := t.TempDir()
	if err := Busybox(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bin/sh", "usr/bin/env", "sbin/ip", "etc/passwd", "tmp", "var/tmp"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
