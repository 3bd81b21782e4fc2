package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestDamagedState cuts the file of a state directory in half: every command that needs it, and the daemon, name the file, say what to do, and change nothing. With the file
// restored all is there.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"j.hcl": oneStep("echo ready")})
	p.run("run", "j.hcl", "--state", "state", "--id", "first").wants(0)
	file := filepath.Join(p.work, "state", "slipway.db")
	whole, err := os.ReadFile(file)
	p.must(err)
	p.must(os.WriteFile(file, whole[:len(whole)/2], 0o600))
	for name, args := range map[string][]string{
		"serve":         {"serve", "--state", "state"},
		"run":           {"run", "j.hcl", "--state", "state"},
		"resume":        {"run", "j.hcl", "--state", "state", "--id", "first"},
		"exec":          {"exec", "--state", "state", "--", "true"},
		"logs":          {"logs", "first", "--state", "state"},
		"logs --follow": {"logs", "first", "--follow", "--state", "state"},
		"ps":            {"ps", "--all", "--state", "state"},
		"runs":          {"runs", "--state", "state"},
		"volumes":       {"volumes", "--state", "state"},
		"artifacts":     {"artifacts", "ls", "--state", "state"},
		"caches":        {"artifacts", "caches", "--state", "state"},
		"workers":       {"workers", "--state", "state"},
		"cordon":        {"workers", "cordon", "memory", "--state", "state"},
		"explain":       {"explain", "first", "--state", "state"},
		"gc":            {"gc", "--state", "state"},
		"gc --dry-run":  {"gc", "--dry-run", "--state", "state"},
		"rm":            {"rm", "somebody", "--state", "state"},
		"gc explain":    {"gc", "explain", "first", "--state", "state"},
		"put":           {"artifacts", "put", "x", "j.hcl", "--state", "state"},
	} {
		t.Run(name, func(t *testing.T) {
			p := *p
			p.t = t
			before := contents(t, filepath.Join(p.work, "state"))
			r := p.run(args...)
			if r.code == 0 {
				t.Errorf("slipway %q succeeds", args)
			}
			r.says("slipway: ", "state/slipway.db is damaged (", "restore it from a backup, or move the state directory away to start anew").once()
			after := contents(t, filepath.Join(p.work, "state"))
			for file := range before {
				if before[file] != after[file] {
					t.Errorf("%s had %s, and has %s", file, before[file], after[file])
				}
				delete(after, file)
			}
			if len(after) > 0 {
				t.Errorf("it has made %v", after)
			}
		})
	}
	p.must(os.WriteFile(file, whole, 0o600))
	p.run("logs", "first", "--state", "state").wants(0).prints("only | ready\n")
	p.run("run", "j.hcl", "--state", "state", "--id", "first").wants(0)
}

// contents tells of every file below a directory what it holds, in short, but of the one that says who has the directory open, and of those
// by which SQLite shares a log that is empty.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" {
			return err
		}
		b, err := os.ReadFile(path)
		if filepath.Ext(path) == ".db-shm" || filepath.Ext(path) == ".db-wal" && len(b) == 0 {
			return err
		}
		sum := sha256.Sum256(b)
		out[path] = fmt.Sprintf("%d bytes, %x", len(b), sum[:4])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
