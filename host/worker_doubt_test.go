package host

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// impatientAt is a configuration of a worker m, to which the settings lead, of which everything would be given up the moment that it is away.
func impatientAt(settings string) *config.Config {
	cfg := testConfig("m")
	cfg.Plugins[0].Command = settings
	cfg.Timing.WorkerGone, cfg.Timing.Prune = time.Nanosecond, time.Nanosecond
	return cfg
}

// wantDoubt wants a worker to be waited for without an end, and its report to say what has changed and what to do.
func wantDoubt(t *testing.T, h *Host, name, why string) {
	t.Helper()
	w := h.workers[name]
	testkit.Until(t, name+" is in doubt", func() bool { return w.inDoubt() })
	h.pruneIfGone(w)
	w.cutIfGone()
	if w.goneIn() != math.MaxInt64 || w.isGone() || w.presence().Err() != nil || stateOf(t, h, "owner") != lifecycle.ContainerReady {
		t.Errorf("it is waited for for %v; what is recorded of it is %s", w.goneIn(), stateOf(t, h, "owner"))
	}
	r := reportOf(t, h, name)
	for _, want := range []string{why, `the plugin's command is `, `and was "old"`, "on " + name + " there is the container of owner", "Put them back", "slipway workers retire " + name} {
		if r.Up || !strings.Contains(r.Why, want) || r.Why != r.Reason {
			t.Errorf("up: %t, %q, %q, which does not say %q", r.Up, r.Why, r.Reason, want)
		}
	}
}

// TestChangedAndSilent: a worker that does not answer with other settings than it had, or whose plugin does not run with them, loses nothing for being away: what was there is found
// again once they are put back, or given up by who retires it.
func TestChangedAndSilent(t *testing.T) {
	t.Parallel()
	silent := func(rt sdk.Runtime) sdk.Runtime {
		return &hooked{Runtime: rt, status: func(context.Context, int, *sdk.Status) error { return sdk.NewUnavailable(nil, "no route to host") }}
	}
	for name, open := range map[string]func(t *testing.T, rt sdk.Runtime, dir string) (h *Host, why string){
		"it does not answer": func(t *testing.T, rt sdk.Runtime, dir string) (*Host, string) {
			return openConfig(t, impatientAt("new"), Options{StateDir: dir, Runtimes: map[string]sdk.Runtime{"memory": silent(rt)}}), "no route to host"
		},
		"its plugin does not run": func(t *testing.T, _ sdk.Runtime, dir string) (*Host, string) {
			return openConfig(t, impatientAt(filepath.Join(dir, "mistyped")), Options{StateDir: dir}), "mistyped"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, rt := newStateDir(t), lasting(newMemory(t, "m"))
			before := func() *Host {
				return openConfig(t, impatientAt("old"), Options{StateDir: dir, Runtimes: map[string]sdk.Runtime{"memory": rt}})
			}
			h := before()
			ranIn(t, h, "owner", ContainerRequest{})
			closeTestHost(t, h)
			h, why := open(t, rt, dir)
			wantDoubt(t, h, "m", why)
			closeTestHost(t, h)
			h = before()
			if r := reportOf(t, h, "m"); !r.Up || h.workers["m"].isElsewhere() || stateOf(t, h, "owner") != lifecycle.ContainerReady {
				t.Errorf("with its settings put back it is %+v, and its container %s", r, stateOf(t, h, "owner"))
			}
			closeTestHost(t, h)
			h, _ = open(t, rt, dir)
			wantDoubt(t, h, "m", why)
			if err := h.RetireWorker(testkit.Context(t), "m", ""); err != nil {
				t.Fatal(err)
			}
			if err := h.AwaitDrained(testkit.Context(t), "m", nil); err != nil || stateOf(t, h, "owner") != lifecycle.ContainerLost {
				t.Errorf("once it is retired, its container is %s, %v", stateOf(t, h, "owner"), err)
			}
		})
	}
}

// TestSilentWithItsSettings: a worker that does not answer with the settings that it had is given up when its time has passed, as ever.
func TestSilentWithItsSettings(t *testing.T) {
	t.Parallel()
	dir, rt := newStateDir(t), lasting(newMemory(t, "m"))
	o, away := pluggable(rt)
	h := openConfig(t, impatientAt("old"), Options{StateDir: dir, Runtimes: map[string]sdk.Runtime{"memory": o}})
	ranIn(t, h, "owner", ContainerRequest{})
	closeTestHost(t, h)
	away.Store(true)
	h = openConfig(t, impatientAt("old"), Options{StateDir: dir, Runtimes: map[string]sdk.Runtime{"memory": o}})
	if w := h.workers["m"]; w.isElsewhere() || !w.isGone() || !w.isJudged(h.plugin("memory")) {
		t.Errorf("it is %+v", w.report())
	}
}

// TestNodesOfAnotherCluster: with other settings a plugin tells other nodes. Of those that it told before nothing is given up, though they come and go by themselves: it tells them again with the
// old settings. Who retires one has it forgotten.
func TestNodesOfAnotherCluster(t *testing.T) {
	t.Parallel()
	n, dir, rt := newNodes(), newStateDir(t), newMemory(t, "m/1", "m/2")
	begin := func(settings, node string) *Host {
		o := lasting(rt).(*hooked)
		o.workers = n.workers
		h, err := Open(t.Context(), impatientAt(settings), Options{StateDir: dir, Runtimes: map[string]sdk.Runtime{"memory": o}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeTestHost(t, h) })
		n.tell(sdk.WorkerSnapshot, node)
		if err := h.Ready(testkit.Context(t)); err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := begin("old", "m/1")
	ranIn(t, h, "owner", ContainerRequest{})
	closeTestHost(t, h)
	h = begin("new", "m/2")
	wantDoubt(t, h, "m/1", "its plugin does not tell it any more")
	ranIn(t, h, "next", ContainerRequest{})
	closeTestHost(t, h)
	h = begin("old", "m/1")
	if r := reportOf(t, h, "m/1"); !r.Up || stateOf(t, h, "owner") != lifecycle.ContainerReady {
		t.Errorf("with its settings put back it is %+v, and its container %s", r, stateOf(t, h, "owner"))
	}
	closeTestHost(t, h)
	h = begin("new", "m/2")
	w := h.workers["m/1"]
	if err := h.RetireWorker(testkit.Context(t), "m/1", ""); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it is forgotten", func() bool { h.pruneIfGone(w); return w.forgotten() })
	if got := stateOf(t, h, "owner"); got != lifecycle.ContainerLost {
		t.Errorf("what was at the old place is %s", got)
	}
}

// TestAcceptedSaysWhatChanged: a worker that was away when it got other settings, and is another place when it answers, says which they are.
func TestAcceptedSaysWhatChanged(t *testing.T) {
	t.Parallel()
	rt, away := pluggable(lasting(newMemory(t, "m")))
	h := openHost(t, rt, Options{}, "m")
	if _, err := h.Container(testkit.Context(t), "owner", ContainerRequest{}); err != nil {
		t.Fatal(err)
	}
	w, ctx := h.workers["m"], testkit.Context(t)
	away.Store(true)
	w.lookNow()
	testkit.Until(t, "it is away", func() bool { return w.connection() == nil })
	settings := h.plugin("memory").settingsOf("m")
	settings["the plugin's command"] = `"old"`
	h.keepSettings(ctx, w, settings)
	if err := h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error { // as of another place
		row, err := tx.Worker("m")
		row.VolumeIncarnation = "another"
		return errors.Join(err, tx.PutWorker(row))
	}); err != nil {
		t.Fatal(err)
	}
	m := &unproven{holds: "something", seen: make(chan struct{}), accepted: make(chan struct{})}
	close(m.accepted)
	w.setUnproven(m)
	away.Store(false)
	w.lookNow()
	testkit.Until(t, "it is not used", func() bool { return reportOf(t, h, "m").Unused })
	r := reportOf(t, h, "m")
	for _, want := range []string{"worker m is another place", `the plugin's command is "slipway-memory", and was "old"`, "slipway workers retire m"} {
		if !strings.Contains(r.Why, want) {
			t.Errorf("it is not used since %q, which does not say %q", r.Why, want)
		}
	}
}

// TestDoubtComesLate: a worker that is seen to be the same place while it is still found out whether it leads elsewhere is in no doubt, whichever of the two is noted first. Else calls would
// wait for it without an end, and to retire it would copy nothing of it elsewhere.
func TestDoubtComesLate(t *testing.T) {
	t.Parallel()
	conn, err := newMemory(t, "m").Worker("m")
	if err != nil {
		t.Fatal(err)
	}
	for _, doubtFirst := range []bool{false, true} {
		w := newWorker("m", "memory", time.Minute, nil)
		w.setAway(nil, errAway)
		if doubtFirst {
			w.setDoubt("its settings have changed")
			w.giveUp()
		}
		w.setUp(conn, sdk.Status{})
		if !doubtFirst {
			w.setDoubt("its settings have changed")
			w.giveUp()
		}
		if w.inDoubt() || w.isElsewhere() || w.isGivenUp() || w.goneIn() != time.Minute {
			t.Errorf("noted before it was back: %t; in doubt %t, elsewhere %t, given up %t, waited for for %s", doubtFirst, w.inDoubt(), w.isElsewhere(), w.isGivenUp(), w.goneIn())
		}
	}
}
