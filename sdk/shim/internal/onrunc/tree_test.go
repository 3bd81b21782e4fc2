//go:build linux

package onrunc

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
)

// living counts the processes of the container whose command line matches. The pattern must not match itself.
func (b *box) living(pattern string) string {
	b.t.Helper()
	return b.run(sdk.ProcessSpec{Path: "sh", Args: []string{"-c", "pgrep -f '" + pattern + "' | wc -l"}}).stdout
}

// TestKillTree kills processes with all that they have started, wherever that is.
func TestKillTree(t *testing.T) {
	b := newBox(t, setting{})
	suid := filepath.Join(b.root, "suid-98765")
	build(t, suid, "./testdata/blocked")
	b.check(os.Chmod(suid, 0o755|os.ModeSetuid))
	for name, c := range map[string]struct{ user, script string }{
		"children":         {"", "sleep 98765 & sleep 98765 & echo up; wait"},
		"grandchildren":    {"alice", "sh -c 'sh -c \"sleep 98765; :\"; :' & echo up; wait"},
		"other sessions":   {"alice", "setsid sh -c 'setsid sleep 98765 & sleep 98765' & echo up; wait"},
		"orphans":          {"", "(setsid sh -c 'sleep 98765 & sleep 98765 & exit' &); sleep 0.2; echo up; sleep 98765"},
		"stopped ones":     {"alice", "sleep 98765 & kill -STOP $!; setsid sh -c 'kill -STOP $$; sleep 98765' & echo up; wait"},
		"stopped leader":   {"", "sleep 98765 & echo up; kill -STOP $$; wait"},
		"of another user":  {"alice", "/suid-98765 & setsid /suid-98765 & echo up; wait"},
		"all ignored":      {"", "trap '' HUP INT QUIT TERM; setsid sleep 98765 & echo up; while :; do sleep 98765; done"},
		"that keep making": {"", "(while :; do setsid sh -c 'setsid sleep 98765 & sleep 98765' & sleep 0.01; done) & echo up; wait"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := sh(c.script)
			spec.User = c.user
			p := b.open(spec)
			p.expect("up\n")
			p.signal(sdk.KILL)
			if r := p.end(); r.exit.Signal != sdk.KILL || r.exit.Code != 137 || r.exit.Reason != sdk.ExitSignalled || r.exit.OutputCut {
				t.Errorf("%+v", r.exit)
			}
			if n := b.living("9876[5]"); n != "0\n" {
				t.Errorf("%s live", strings.TrimSpace(n))
			}
		})
	}
	b.awaitQuiet()
}

// TestForkBomb kills one that has taken all processes that the container may have. The keeper lives and starts others.
func TestForkBomb(t *testing.T) {
	b := newBox(t, setting{spec: func(s *engine.Spec) { s.PIDs = 100 }})
	b.write("bomb", "#!/bin/sh\n(setsid /bomb &)\n/bomb &\necho up\nexec sleep 98765\n", 0o755)
	spec := sh("(/bomb &); exec sleep 98765") // a leader that found no room would end, and after that the signal is for nobody
	spec.User = "alice"
	for range 3 {
		p := b.open(spec)
		for range 10 {
			p.expect("up\n")
		}
		for range 3 {
			if id, err := b.tryStart(sh("echo room")); err == nil {
				var r result
				if err := b.FollowProcess(t.Context(), b.id, id, 0, r.follow()); err != nil {
					t.Errorf("started amid the bomb: %v", err)
				}
			} else if !errors.Is(err, sdk.Unavailable) {
				t.Errorf("started amid the bomb: %v", err)
			} else {
				b.noRecord(t, id)
			}
		}
		p.signal(sdk.KILL)
		if r := p.end(); r.exit.Signal != sdk.KILL {
			t.Errorf("%+v", r.exit)
		}
		b.says(sh("echo again"), "again\n")
	}
	if n := b.living("9876[5]"); n != "0\n" {
		t.Errorf("%s live", n)
	}
	b.awaitQuiet()
}

// TestNoProc has a keeper that sees no /proc: it says so, and KILL reaches the group.
func TestNoProc(t *testing.T) {
	b := newContainer(t, after("umount -l /proc"))
	info, err := b.Ready(t.Context(), b.id)
	b.check(err)
	noted(t, info.Notes, "/proc", "KILL", "group")
	b.says(sh("echo yet; ls /proc | wc -l"), "yet\n0\n")
	for _, user := range []string{"alice", "1000:7", ""} {
		spec := sh("id -u >/dev/null && echo ok")
		spec.User = user
		b.says(spec, "ok\n")
	}
	p := b.open(sh("sleep 98765 & sleep 98765 & echo up; wait"))
	p.expect("up\n")
	p.signal(sdk.KILL)
	if r := p.end(); r.exit.Signal != sdk.KILL || r.exit.OutputCut {
		t.Errorf("%+v", r.exit)
	}
	p = b.open(sh("setsid sh -c '>/tmp/away; until [ -e /tmp/end ]; do sleep 0.02; done' >/dev/null 2>&1 & until [ -e /tmp/away ]; do sleep 0.02; done; echo up; wait"))
	p.expect("up\n")
	p.signal(sdk.KILL)
	if r := p.end(); r.exit.Signal != sdk.KILL {
		t.Errorf("%+v", r.exit)
	}
	if err := b.Quiesce(t.Context(), b.id); reasonOf(err) != sdk.ReasonInUse { // what was not reached is not forgotten
		t.Errorf("%v", err)
	}
	b.write("tmp/end", "", 0o644)
	b.awaitQuiet()
}

// TestZombies has a thousand orphans end, which none but the keeper's own can collect.
func TestZombies(t *testing.T) {
	for name, initMode := range map[string]bool{"process 1": false, "first exec": true} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, setting{initMode: initMode})
			const none = "until [ $(grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l) = 0 ]; do sleep 0.02; done; echo none"
			b.says(sh("i=0; while [ $i -lt 1000 ]; do (true &); i=$((i+1)); done; "+none), "none\n")
			b.says(sh("i=0; while [ $i -lt 100 ]; do (setsid sh -c 'sleep 0.3' >/dev/null 2>&1 &); i=$((i+1)); done"), "")
			b.says(sh(none), "none\n")
			b.awaitQuiet()
			testkit.Until(t, "no zombie is left", func() bool { return b.zombies() == 0 }) // nor the monitor of what said so
		})
	}
}

// TestZombiesOfDeadKeeper has a keeper die whose parent, the first exec, is gone: process 1 collects it, and what it had not.
func TestZombiesOfDeadKeeper(t *testing.T) {
	b := newBox(t, setting{initMode: true})
	b.says(sh("echo up"), "up\n")
	b.cut()
	spec := sh("setsid sleep 0.1 & echo up; read x; kill -9 $(awk '/^PPid/{print $2}' /proc/$PPID/status); sleep 98765")
	spec.Stdin = true
	p := b.open(spec)
	p.expect("up\n")
	p.send("\n")
	if <-p.over; reasonOf(p.err) != sdk.ReasonAbandoned {
		t.Errorf("%v", p.err)
	}
	testkit.Until(t, "no zombie is left", func() bool { return b.zombies() == 0 })
}

// zombies counts them from outside.
func (b *box) zombies() (n int) {
	b.t.Helper()
	info, err := b.engine.State(b.t.Context(), string(b.id))
	b.check(err)
	namespace := func(pid string) string {
		link, _ := os.Readlink(filepath.Join("/proc", pid, "ns/pid"))
		return link
	}
	ours := namespace(strconv.Itoa(info.PID))
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	b.check(err)
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err == nil && strings.Contains(string(text), ") Z ") && namespace(filepath.Base(filepath.Dir(name))) == ours {
			n++
		}
	}
	return n
}

// TestOrphans has leaders that leave something behind.
func TestOrphans(t *testing.T) {
	b := newBox(t, setting{})
	t.Run("with the output", func(t *testing.T) {
		p := b.open(sh(`setsid sh -c 'echo first; >/tmp/said; until [ -e /tmp/go ]; do sleep 0.02; done
			dd if=/dev/zero bs=64k count=64 2>/dev/null; echo $? >/tmp/done' & until [ -e /tmp/said ]; do sleep 0.02; done; exit 5`))
		if r := p.end(); r.stdout != "first\n" || r.exit.Code != 5 || !r.exit.OutputCut || r.exit.Reason != sdk.ExitExited {
			t.Errorf("%+v %q", r.exit, r.stdout)
		}
		if err := b.Quiesce(t.Context(), b.id); !errors.Is(err, sdk.FailedPrecondition) || reasonOf(err) != sdk.ReasonInUse {
			t.Errorf("%v", err)
		}
		for _, s := range sdk.Signals() {
			p.signal(s) // after the exit they do nothing
		}
		b.write("tmp/go", "", 0o644)
		b.says(sh("until [ -s /tmp/done ]; do sleep 0.02; done; cat /tmp/done"), "0\n")
		var again result
		b.check(b.FollowProcess(t.Context(), b.id, p.id, sdk.Position(len("first\n")), again.follow()))
		if again.stdout != "" || again.exit != p.result.exit {
			t.Errorf("later %q %+v", again.stdout, again.exit)
		}
	})
	t.Run("without the output", func(t *testing.T) {
		spec := sh("(sh -c 'read x; echo $x >/tmp/heard' <&0 &) >/dev/null 2>&1; exit 6")
		if r := b.run(spec); r.exit.Code != 6 || r.exit.OutputCut {
			t.Errorf("%+v", r.exit)
		}
	})
	t.Run("quiet at last", func(t *testing.T) {
		id := b.start(sh("(setsid sh -c 'until [ -e /tmp/end ]; do sleep 0.02; done' &) >/dev/null 2>&1; exit 7"))
		if r := b.follow(id); r.exit.Code != 7 || r.exit.OutputCut {
			t.Errorf("%+v", r.exit)
		}
		testkit.Until(t, "what it has left is all that is in the way", func() bool { // and nothing of the one before any more
			e, ok := errors.AsType[*sdk.Error](b.Quiesce(t.Context(), b.id))
			return ok && e.Reason == sdk.ReasonInUse && e.ID == string(id)
		})
		b.says(sh("echo still started"), "still started\n")
		b.write("tmp/end", "", 0o644)
		b.awaitQuiet()
		b.check(b.Quiesce(t.Context(), b.id))
		late, err := b.tryStart(sh("true"))
		if !errors.Is(err, sdk.FailedPrecondition) || reasonOf(err) != sdk.ReasonSealed {
			t.Errorf("%v", err)
		}
		if all, err := b.ListProcesses(t.Context(), b.id); err != nil || len(all) == 0 {
			t.Errorf("%d listed, %v", len(all), err)
		}
		if err := b.FollowProcess(t.Context(), b.id, late, 0, sdk.Follow{}); !sdk.IsNotFound(err, sdk.KindProcess) {
			t.Errorf("%v", err)
		}
	})
}
