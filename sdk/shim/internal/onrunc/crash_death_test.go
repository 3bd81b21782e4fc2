//go:build linux

package onrunc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// reader is what tells of processes: a driver, or records.
type reader struct {
	list   func() ([]sdk.ProcessInfo, error)
	follow func(sdk.ProcessID, *story) error
}

func (b *box) throughDriver(ctx context.Context) reader {
	h := host{b.Driver, b.id}
	return reader{
		list: func() (all []sdk.ProcessInfo, err error) {
			for {
				if all, err = h.ListProcesses(ctx, b.id); !errors.Is(err, sdk.Unavailable) {
					return all, err
				}
			}
		},
		follow: func(id sdk.ProcessID, s *story) error { return h.follow(ctx, id, s) },
	}
}

func (b *box) throughRecords(ctx context.Context) reader {
	root, err := os.OpenRoot(b.scratch)
	b.check(err)
	b.t.Cleanup(func() { root.Close() })
	r := shim.Remains(root.FS())
	return reader{
		list:   r.ListProcesses,
		follow: func(id sdk.ProcessID, s *story) error { return r.FollowProcess(ctx, id, 0, s.follow()) },
	}
}

// leaver leaves something behind that no group and no session leads to, and goes on.
const leaver = `setsid sh -c 'setsid sleep 1000 & sleep 1000' </dev/null >/dev/null 2>&1 & echo out; sleep 1000`

// TestCrashOfTheKeeper kills the supervisor while processes begin and end.
func TestCrashOfTheKeeper(t *testing.T) {
	rounds := testkit.Times(2, 6)
	d := newDice(t)
	for name, m := range map[string]setting{"process 1": {}, "first exec": {initMode: true}} {
		t.Run(name, func(t *testing.T) {
			for range rounds {
				t.Run("", func(t *testing.T) { crashKeeper(t, d, m) })
			}
		})
	}
}

func crashKeeper(t *testing.T, d *dice, m setting) {
	b := newBox(t, m)
	ctx := testkit.Context(t)
	said, done, long := counted("said", "echo kept; exit 5"), counted("done", "echo told; exit 7"), counted("long", leaver)
	for _, spec := range []sdk.ProcessSpec{said, done, long} {
		b.check(b.StartProcess(ctx, b.id, spec))
	}
	b.check(b.ends(ctx, "done", "told\n", "", 7))
	testkit.Until(t, "said has ended", func() bool { p, err := b.listed(ctx, "said"); return err == nil && p.State == sdk.ProcessExited })
	testkit.Until(t, "all leftovers are there", func() bool { return len(b.commands()) == 3 })
	b.check(b.journalled(ctx, "long", "out\n"))

	keeper := b.keeper()
	var starting sync.WaitGroup
	var mu sync.Mutex
	started := map[sdk.ProcessID]bool{"said": true, "done": true, "long": true}
	for k := range 3 {
		starting.Go(func() {
			for i := range 100 {
				id := newID(fmt.Sprintf("more%d", k), i)
				err := b.StartProcess(ctx, b.id, counted(id, "echo some; exit 3"))
				if err != nil {
					return
				}
				mu.Lock()
				started[id] = true
				mu.Unlock()
			}
		})
	}
	d.pass(120 * time.Millisecond)
	b.check(unix.Kill(keeper, unix.SIGKILL))
	testkit.Until(t, "all commands are gone", func() bool {
		return len(b.commands()) == 0 && len(b.find("monitor")) == 0
	})
	starting.Wait()

	readers := map[string]reader{"records": b.throughRecords(ctx)}
	if m.initMode {
		readers["relay"] = b.throughDriver(ctx)
	}
	for name, r := range readers {
		b.deadTells(name, r, started)
	}
	if m.initMode {
		b.staysDead(ctx, said)
	}
}

// deadTells checks what is told of a dead keeper's processes.
func (b *box) deadTells(name string, r reader, started map[sdk.ProcessID]bool) {
	b.t.Helper()
	all, err := r.list()
	b.check(err)
	runs := b.runs()
	listed := make(map[sdk.ProcessID]sdk.ProcessInfo)
	for _, p := range all {
		listed[p.ID] = p
		times := runs[string(p.ID)]
		switch p.State {
		case sdk.ProcessExited:
			want := map[sdk.ProcessID]int{"said": 5, "done": 7, "long": -1}[p.ID]
			if want == 0 {
				want = 3
			}
			if p.Exit.Code != want || p.Exit.Reason != sdk.ExitExited || times != 1 {
				b.t.Errorf("%s: %q ran %d times and has the exit %+v", name, p.ID, times, *p.Exit)
			}
		case sdk.ProcessAbandoned:
			if p.ID == "said" || p.ID == "done" || times > 1 {
				b.t.Errorf("%s: %q is abandoned, and ran %d times", name, p.ID, times)
			}
		default:
			b.t.Errorf("%s: %q is in state %v", name, p.ID, p.State)
		}
	}
	for id := range started {
		if _, ok := listed[id]; !ok {
			b.t.Errorf("%s: %q was started and is not listed", name, id)
		}
	}
	for id := range runs {
		if _, ok := listed[sdk.ProcessID(id)]; !ok {
			b.t.Errorf("%s: %q has run and is not listed", name, id)
		}
	}
	for id, p := range listed {
		s := newStory(0)
		err := r.follow(id, s)
		switch {
		case id == "done":
			// What was acknowledged may be gone.
			if err != nil && !errors.Is(err, sdk.ReasonOutputGap) {
				b.t.Errorf("%s: following %q: %v", name, id, err)
			}
		case p.State == sdk.ProcessExited:
			want := map[sdk.ProcessID]string{"said": "kept\n"}[id]
			if want == "" {
				want = "some\n"
			}
			if err == nil {
				err = s.is(want, "", p.Exit.Code)
			}
			if err != nil {
				b.t.Errorf("%s: following %q: %v", name, id, err)
			}
		default:
			want := map[sdk.ProcessID]string{"long": "out\n"}[id]
			if want == "" {
				want = "some\n"
			}
			if !errors.Is(err, sdk.ReasonAbandoned) || s.exit != nil || s.wrong != nil || !strings.HasPrefix(want, s.stdout()) || id == "long" && s.stdout() != want {
				b.t.Errorf("%s: following %q: %v, %q, %+v, %v", name, id, err, s.stdout(), s.exit, s.wrong)
			}
		}
	}
}

// staysDead checks that nothing starts in a dead container, and that nothing makes another keeper.
func (b *box) staysDead(ctx context.Context, before sdk.ProcessSpec) {
	b.t.Helper()
	runs := len(b.runs())
	for _, spec := range []sdk.ProcessSpec{before, counted("after", "exit 0")} {
		if err := b.StartProcess(ctx, b.id, spec); !errors.Is(err, sdk.FailedPrecondition) || !errors.Is(err, sdk.ReasonDead) {
			b.t.Errorf("starting %q: %v", spec.ID, err)
		}
	}
	b.Forget(b.id)
	if _, err := b.Start(ctx, b.id); !errors.Is(err, sdk.FailedPrecondition) || !errors.Is(err, sdk.ReasonDead) {
		b.t.Errorf("making another keeper: %v", err)
	}
	if _, err := b.Ready(ctx, b.id); !errors.Is(err, sdk.ReasonDead) {
		b.t.Errorf("awaiting another keeper: %v", err)
	}
	if err := b.SignalProcess(ctx, b.id, before.ID, sdk.KILL); err != nil {
		b.t.Errorf("signal: %v", err)
	}
	if err := b.SignalProcess(ctx, b.id, "long", sdk.KILL); !errors.Is(err, sdk.ReasonDead) { // it has no exit, and nobody is left to signal it
		b.t.Errorf("signalling what was abandoned: %v", err)
	}
	if d := b.find("daemon"); len(d) > 0 {
		b.t.Errorf("another keeper: %+v", d)
	}
	if n := len(b.runs()); n != runs {
		b.t.Errorf("%d more processes ran", n-runs)
	}
}

// TestCrashOfAMonitor kills one monitor: its command's leftovers go with it, the others do not notice.
func TestCrashOfAMonitor(t *testing.T) {
	for name, m := range map[string]setting{"process 1": {}, "first exec": {initMode: true}} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, m)
			ctx := t.Context()
			pauses := 0
			if m.initMode {
				pauses = 1 // process 1, which may still be on its way to become that
			}
			victim := counted("victim", `(setsid /slipway/shim pause </dev/null >/dev/null 2>&1 &) ; `+leaver)
			victim.User = "alice"
			b.check(os.WriteFile(b.root+"/tmp/runs", nil, 0o666))
			b.check(os.Chmod(b.root+"/tmp/runs", 0o666))
			b.check(b.StartProcess(ctx, b.id, victim))
			testkit.Until(t, "all of it is there", func() bool { return len(b.commands()) == 3 && len(b.find("pause")) == pauses+1 })
			b.check(b.journalled(ctx, "victim", "out\n"))
			monitor := b.monitors()[0]

			other := counted("other", "cat; exit 3")
			other.Stdin = true
			b.check(b.StartProcess(ctx, b.id, other))
			s := newStory(0)
			in := make(chan string)
			s.hooks.Stdin = texts(in)
			followed := make(chan error, 1)
			go func() { followed <- b.FollowProcess(ctx, b.id, "other", 0, s.follow()) }()
			in <- "before\n"

			b.check(unix.Kill(monitor.pid, unix.SIGKILL))
			v := newStory(0)
			if err := b.FollowProcess(ctx, b.id, "victim", 0, v.follow()); !errors.Is(err, sdk.ReasonAbandoned) || v.exit != nil || v.stdout() != "out\n" {
				t.Errorf("%v, %q, %+v", err, v.stdout(), v.exit)
			}
			for _, p := range b.commands() {
				if p.name == "sleep" {
					t.Errorf("left: %+v", p)
				}
			}
			if left := b.find("pause"); len(left) != pauses {
				t.Errorf("left: %+v", left)
			}
			if p, err := b.listed(ctx, "victim"); err != nil || p.State != sdk.ProcessAbandoned || p.Exit != nil {
				t.Errorf("%+v, %v", p, err)
			}
			b.check(b.StartProcess(ctx, b.id, victim)) // that is a success, and nothing happens
			in <- "after\n"
			close(in)
			if err := <-followed; err != nil {
				t.Fatal(err)
			}
			if err := s.is("before\nafter\n", "", 3); err != nil {
				t.Error(err)
			}
			b.ranOnce(2)
		})
	}
}

// texts reads what comes on a channel.
type texts chan string

func (c texts) Read(p []byte) (int, error) {
	s, ok := <-c
	if !ok {
		return 0, io.EOF
	}
	return copy(p, s), nil
}

// TestCrashOfMonitorsAtAnyMoment kills monitors around the starts and the ends of commands.
func TestCrashOfMonitorsAtAnyMoment(t *testing.T) {
	b := newBox(t, setting{initMode: true})
	d := newDice(t)
	want := testkit.Times(20, 200)
	ctx, cancel := context.WithCancel(testkit.Context(t))
	var killing sync.WaitGroup
	defer killing.Wait()
	defer cancel()
	killed := make(map[int]bool)
	keeper := b.keeper()
	var mu sync.Mutex
	killing.Go(func() {
		for ctx.Err() == nil {
			d.pass(10 * time.Millisecond)
			if all := b.find("monitor"); len(all) > 0 {
				m := all[d.below(len(all))]
				pid := m.pid
				if m.parent != keeper {
					continue // what was forked to become a command, and has still the name
				}
				if unix.Kill(pid, unix.SIGKILL) == nil {
					mu.Lock()
					killed[pid] = true
					mu.Unlock()
				}
			}
		}
	})
	kills := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(killed)
	}
	exits, abandoned, n := 0, 0, 0
	for kills() < want && !t.Failed() && ctx.Err() == nil {
		each(t, 20, 4, func(i int) error {
			id := newID("m", n+i)
			h := host{b.Driver, b.id} // a monitor that dies before it has its command is Unavailable
			if err := h.start(ctx, counted(id, "echo a; (setsid sleep 1000 &) </dev/null >/dev/null 2>&1; echo b; exit 3")); err != nil {
				return err
			}
			s := newStory(0)
			err := b.FollowProcess(ctx, b.id, id, 0, s.follow())
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, sdk.ReasonAbandoned) {
				if abandoned++; s.exit != nil || s.wrong != nil || !strings.HasPrefix("a\nb\n", s.stdout()) {
					return fmt.Errorf("abandoned with %q, %+v, %v", s.stdout(), s.exit, s.wrong)
				}
				return nil
			}
			if exits++; err == nil {
				err = s.is("a\nb\n", "", 3)
			}
			return err
		})
		n += 20
	}
	if ctx.Err() != nil {
		t.Errorf("in all the time only %d monitors could be killed", kills())
	}
	cancel()
	killing.Wait()
	t.Logf("%d monitors killed; %d exits, %d abandoned", len(killed), exits, abandoned)
	for id, times := range b.runs() {
		if times != 1 {
			t.Errorf("%q ran %d times", id, times)
		}
	}
	for _, m := range b.find("monitor") {
		_ = unix.Kill(m.pid, unix.SIGKILL)
	}
	testkit.Until(t, "leftovers are gone", func() bool { return len(b.commands()) == 0 })
}
