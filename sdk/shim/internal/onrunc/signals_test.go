//go:build linux

package onrunc

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

func TestSignals(t *testing.T) {
	b := newBox(t, setting{})
	for _, s := range sdk.Signals() {
		t.Run(string(s), func(t *testing.T) {
			deadly, caught := s != sdk.CONT && s != sdk.STOP, s != sdk.KILL && s != sdk.STOP
			t.Run("deadly", func(t *testing.T) {
				if !deadly {
					return
				}
				p := b.open(sdk.ProcessSpec{Path: "cat", Stdin: true})
				p.send("up\n")
				p.expect("up\n")
				p.signal(s)
				if r := p.end(); r.exit.Signal != s || r.exit.Code != 128+s.Number() || r.exit.Reason != sdk.ExitSignalled {
					t.Errorf("%+v", r.exit)
				}
				p.signal(s) // does nothing
			})
			t.Run("caught", func(t *testing.T) {
				if !caught {
					return
				}
				p := b.open(sh(fmt.Sprintf("trap 'echo caught; exit 40' %s; echo up; while :; do sleep 0.05; done", s)))
				p.expect("up\n")
				p.signal(s)
				p.expect("caught\n")
				if r := p.end(); r.exit.Code != 40 || r.exit.Signal != "" {
					t.Errorf("%+v", r.exit)
				}
			})
		})
	}
	if err := b.SignalProcess(t.Context(), b.id, "nobody", sdk.TERM); !sdk.IsNotFound(err, sdk.KindProcess) {
		t.Errorf("to nobody: %v", err)
	}
}

// TestStopAndContinue stops a process and asks another one whether it is.
func TestStopAndContinue(t *testing.T) {
	b := newBox(t, setting{})
	p := b.open(sh("echo $$; while :; do sleep 0.05; done"))
	pid := strings.TrimSpace(p.expect("\n"))
	state := func(letters string) {
		t.Helper()
		b.says(sh(fmt.Sprintf("until grep -q '^State:.[%s]' /proc/%s/status; do :; done; echo so", letters, pid)), "so\n")
	}
	for range 3 {
		p.signal(sdk.STOP)
		state("T")
		p.signal(sdk.CONT)
		state("SRD")
	}
	p.signal(sdk.STOP)
	state("T")
	p.signal(sdk.TERM) // waits for the process to go on
	p.signal(sdk.CONT)
	if r := p.end(); r.exit.Signal != sdk.TERM {
		t.Errorf("%+v", r.exit)
	}
}

// TestSignalGroup tells who hears of a signal: the leader's group, and nobody who has left it.
func TestSignalGroup(t *testing.T) {
	b := newBox(t, setting{})
	const child = `sh -c 'trap "echo %s heard; exit" TERM; echo %s up; while :; do sleep 0.05; done' & `
	p := b.open(sh(fmt.Sprintf("trap 'wait; exit 3' TERM; "+child+"setsid "+child+"wait", "near", "near", "far", "far")))
	p.expect("up\n")
	p.expect("up\n")
	p.signal(sdk.TERM)
	p.expect("near heard\n")
	p.signal(sdk.KILL)
	if r := p.end(); strings.Contains(r.stdout, "far heard") {
		t.Errorf("who had left the group heard it: %q", r.stdout)
	}
	b.awaitQuiet()
}

// TestSignalAfterLeader signals what a leader has left in its group while its output is awaited, and after its exit.
func TestSignalAfterLeader(t *testing.T) {
	b := newBox(t, setting{})
	spec := sh(`echo $$; trap "" HUP; sh -c 'trap "echo heard; exit" TERM; echo up; until [ -e /tmp/end ]; do sleep 0.02; done' & read x`)
	spec.Stdin = true
	p := b.open(spec)
	pid := strings.TrimSpace(p.expect("\n"))
	p.expect("up\n")
	p.stdin.Close()
	b.says(sh("while [ -d /proc/"+pid+" ]; do :; done"), "")
	p.signal(sdk.TERM)
	// On a slow machine the grace may have ended before the signal came, or between the word and the end of who said it.
	if r := p.end(); r.exit.Signal != "" || !strings.Contains(r.stdout, "heard") && !r.exit.OutputCut {
		t.Errorf("%+v %q", r.exit, r.stdout)
	}
	for _, s := range sdk.Signals() {
		p.signal(s)
	}
	b.write("tmp/end", "", 0o644) // of who has not heard, since the grace had ended
	b.awaitQuiet()
}

func TestSignalRightAfterStart(t *testing.T) {
	b := newBox(t, setting{})
	for i := range 200 {
		s := []sdk.Signal{sdk.KILL, sdk.TERM, sdk.HUP}[i%3]
		id := b.start(sdk.ProcessSpec{Path: "sleep", Args: []string{"1000"}})
		b.check(b.SignalProcess(t.Context(), b.id, id, s))
		if r := b.follow(id); r.exit.Signal != s {
			t.Fatalf("%s number %d: %+v", s, i, r.exit)
		}
	}
}

// TestExits has every code and every deadly signal.
func TestExits(t *testing.T) {
	b := newBox(t, setting{})
	for code := range 256 {
		begun := time.Now()
		r := b.run(sdk.ProcessSpec{Path: "sh", Args: []string{"-c", fmt.Sprint("exit ", code)}})
		if e := r.exit; e.Code != code || e.Signal != "" || e.Reason != sdk.ExitExited || e.Message != "" || e.OutputCut {
			t.Errorf("%d: %+v", code, e)
		}
		if e := r.exit; e.StartedAt.Before(begun.Add(-time.Second)) || e.EndedAt.Before(e.StartedAt) || time.Until(e.EndedAt) > time.Second {
			t.Errorf("%d: begun at %v, from %v to %v", code, begun, e.StartedAt, e.EndedAt)
		}
	}
	for number := 1; number <= 64; number++ {
		switch number {
		case 3, 17, 18, 19, 20, 21, 22, 23, 28, 32, 33: // they do not kill (a shell, 3), or belong to the C library
			continue
		}
		name, ok := map[int]sdk.Signal{4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 11: "SEGV", 13: "PIPE", 31: "SYS", 34: "RTMIN+0", 35: "RTMIN+1", 64: "RTMIN+30"}[number]
		r := b.run(sh(fmt.Sprintf("kill -%d $$; sleep 1; echo lives", number)))
		e := r.exit
		if e.Code != 128+number || e.Reason != sdk.ExitSignalled || e.Signal == "" || ok && e.Signal != name {
			t.Errorf("signal %d: %+v %q %q", number, e, r.stdout, r.stderr)
		}
		if s := e.Signal; s.Number() != 0 && s.Number() != number {
			t.Errorf("signal %d is called %s", number, s)
		}
	}
	if r := b.run(sh("sh -c 'kill -9 $$'; exit $?")); r.exit.Code != 137 || r.exit.Signal != "" || r.exit.Reason != sdk.ExitExited {
		t.Errorf("a shell's own word on its child: %+v", r.exit)
	}
}

func TestPeakMemory(t *testing.T) {
	b := newBox(t, setting{})
	const size = 64 << 20
	big := b.run(sh("dd if=/dev/zero of=/dev/null bs=64M count=1 2>/dev/null")).exit.PeakMemoryBytes
	exec := b.run(sdk.ProcessSpec{Path: "dd", Args: []string{"if=/dev/zero", "of=/dev/null", "bs=64M", "count=1"}}).exit.PeakMemoryBytes
	if small := b.run(sh("true")).exit.PeakMemoryBytes; small < 0 || small > 32<<20 {
		t.Errorf("true took %d bytes", small)
	}
	for _, peak := range []int64{big, exec} {
		if peak < size || peak > size+(32<<20) {
			t.Errorf("a buffer of %d bytes took %d", size, peak)
		}
	}
}

// TestUnknownProcess has all calls on a process that never was.
func TestUnknownProcess(t *testing.T) {
	b := newBox(t, setting{})
	for name, err := range map[string]error{
		"follow": b.FollowProcess(t.Context(), b.id, "nobody", 0, sdk.Follow{}),
		"signal": b.SignalProcess(t.Context(), b.id, "nobody", sdk.KILL),
		"resize": b.ResizeProcess(t.Context(), b.id, "nobody", sdk.TTY{}),
	} {
		if e, ok := errors.AsType[*sdk.Error](err); !ok || e.Class != sdk.NotFound || e.Kind != sdk.KindProcess || e.ID != "nobody" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
