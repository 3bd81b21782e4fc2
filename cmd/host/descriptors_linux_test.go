package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDescriptorsOfTheCaller: what slipway's caller has left open reaches no plugin.
func TestDescriptorsOfTheCaller(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	left, err := os.Create(filepath.Join(t.TempDir(), "left-open"))
	p.must(err)
	defer left.Close()
	c := p.command("exec", "--stdin", "--", "sh", "-c", "echo ready; read x")
	c.ExtraFiles = []*os.File{left}
	in, err := c.StdinPipe()
	p.must(err)
	r := p.begin(c)
	r.await("ready")
	if !has(t, r.cmd.Process.Pid, left.Name()) {
		t.Error("slipway itself has not got the file: this test shows nothing")
	}
	plugins := p.processes("slipway-memory")
	for _, pid := range plugins {
		if has(t, pid, left.Name()) {
			t.Errorf("plugin %d has %s open", pid, left.Name())
		}
	}
	if len(plugins) == 0 {
		t.Error("there is no plugin")
	}
	p.must(in.Close())
	r.wait()
}

// has tells whether a process has a file open.
func has(t *testing.T, pid int, name string) bool {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && strings.HasPrefix(to, name) {
			return true
		}
	}
	return false
}
