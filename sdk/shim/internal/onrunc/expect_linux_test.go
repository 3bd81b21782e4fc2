//go:build linux

package onrunc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
)

// refused starts what cannot be started: the error must be of that class and reason, nothing may be left of it, and the container must go
// on. It returns the error.
func (b *box) refused(t *testing.T, spec sdk.ProcessSpec, class sdk.Class, reason sdk.Reason) error {
	t.Helper()
	id, err := b.tryStart(spec)
	if !errors.Is(err, class) || reasonOf(err) != reason {
		t.Errorf("got %v; want %v with reason %q", err, class, reason)
	}
	b.noRecord(t, id)
	if r := b.run(sdk.ProcessSpec{Path: "/bin/busybox", Args: []string{"true"}}); r.exit.Code != 0 {
		t.Errorf("afterwards even true fails: %+v %q", r.exit, r.stderr)
	}
	return err
}

// noRecord checks that the keeper knows nothing of a process, nor does its scratch volume.
func (b *box) noRecord(t *testing.T, id sdk.ProcessID) {
	t.Helper()
	all, err := b.ListProcesses(t.Context(), b.id)
	if err != nil {
		t.Error(err)
	}
	for _, p := range all {
		if p.ID == id {
			t.Errorf("what was not started is listed: %+v", p)
		}
	}
	if _, err := os.Lstat(filepath.Join(b.scratch, "p", string(id))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the scratch volume has a record of what was not started (%v)", err)
	}
	if err := b.FollowProcess(t.Context(), b.id, id, 0, sdk.Follow{}); !sdk.IsNotFound(err, sdk.KindProcess) {
		t.Errorf("following what was not started: %v", err)
	}
}

// prints is says for the tests of a table.
func (b *box) prints(t *testing.T, spec sdk.ProcessSpec, want string) {
	t.Helper()
	if r := b.run(spec); r.stdout != want || r.stderr != "" || r.exit.Code != 0 {
		t.Errorf("got %q and %q on stderr, exit %+v; want %q", r.stdout, r.stderr, r.exit, want)
	}
}

// write makes a file of the container, and the directories above it.
func (b *box) write(name, content string, mode os.FileMode) {
	b.t.Helper()
	name = filepath.Join(b.root, name)
	b.check(os.MkdirAll(filepath.Dir(name), 0o755))
	b.check(os.WriteFile(name, []byte(content), mode))
	b.check(os.Chmod(name, mode))
}

// noted checks that one of the notes has all the words.
func noted(t *testing.T, notes []string, words ...string) {
	t.Helper()
	for _, n := range notes {
		has := true
		for _, w := range words {
			has = has && strings.Contains(n, w)
		}
		if has {
			return
		}
	}
	t.Errorf("no note has the words %q: %q", words, notes)
}

func reasonOf(err error) sdk.Reason {
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		return e.Reason
	}
	return ""
}

// after is a privileged box whose keeper starts once a script has changed its view of the container. Execs have the old view.
func after(script string) setting {
	return setting{spec: func(s *engine.Spec) {
		s.Privileged = true
		s.Args = []string{"/bin/sh", "-c", "unshare -m sh -c '" + script + "; exec /slipway/shim serve /slipway/scratch'; exit 1"}
	}}
}
