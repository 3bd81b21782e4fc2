package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// lasting is a runtime whose things do not end with its plugin.
func lasting(rt sdk.Runtime) sdk.Runtime {
	return &hooked{Runtime: rt, status: func(_ context.Context, _ int, s *sdk.Status) error {
		s.Features = slices.DeleteFunc(slices.Clone(s.Features), func(f sdk.Feature) bool { return f == sdk.FeatureVolatile })
		return nil
	}}
}

// openAt opens a host whose worker m is a runtime's, to which the settings lead.
func openAt(t *testing.T, dir, settings string, rt sdk.Runtime) *Host {
	t.Helper()
	cfg := testConfig("m")
	cfg.Plugins[0].Command = settings
	return openConfig(t, cfg, Options{StateDir: dir, Runtimes: map[string]sdk.Runtime{"memory": lasting(rt)}})
}

// TestBegunElsewhere begins a host whose settings lead a worker to another place than those of the host before it. Nothing of what is at the old place is given up for
// that: it is found again once the settings are put back, or its operator gives it up.
func TestBegunElsewhere(t *testing.T) {
	t.Parallel()
	here, there := newMemory(t, "m"), newMemory(t, "m")
	for name, c := range map[string]struct {
		holds     bool // something is on the worker
		settings  string
		at        sdk.Runtime
		elsewhere bool
		is        string // the container then
	}{
		"other settings, another place":                  {true, "new", there, true, lifecycle.ContainerReady},
		"other settings, the same place":                 {true, "new", here, false, lifecycle.ContainerReady},
		"other settings, another place, nothing is lost": {false, "new", there, false, ""},
		"the same settings, and it has lost all":         {true, "old", there, false, lifecycle.ContainerLost},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newStateDir(t)
			h := openAt(t, dir, "old", here)
			if c.holds {
				if _, err := h.Container(testkit.Context(t), "owner", ContainerRequest{}); err != nil {
					t.Fatal(err)
				}
			}
			closeTestHost(t, h)
			h = openAt(t, dir, c.settings, c.at)
			r := reportOf(t, h, "m")
			if r.Up == c.elsewhere {
				t.Errorf("it is used: %t, %s", r.Up, r.Why)
			}
			if c.elsewhere {
				for _, want := range []string{"worker m is another place with these settings", "owner", `the plugin's command is "new", and was "old"`, "slipway workers retire m"} {
					if !strings.Contains(r.Why, want) {
						t.Errorf("it is not used since %q, which does not say %q", r.Why, want)
					}
				}
				if r.State != pool.Stalled || !r.Unused {
					t.Errorf("it is %s, unused: %t", r.State, r.Unused)
				}
			}
			if c.holds && stateOf(t, h, "owner") != c.is {
				t.Errorf("its container is %s, want %s", stateOf(t, h, "owner"), c.is)
			}
			closeTestHost(t, h)
			if !c.elsewhere {
				return
			}
			h = openAt(t, dir, "old", here)
			if found, err := h.Container(testkit.Context(t), "owner", ContainerRequest{}); err != nil || found.State() != lifecycle.ContainerReady {
				t.Errorf("with the settings put back: %v, %v", found, err)
			}
		})
	}
}

// TestGiveUpElsewhere: what is at a place to which no settings lead any more is given up by who retires the worker, at once, and the new place is put to work then.
func TestGiveUpElsewhere(t *testing.T) {
	t.Parallel()
	dir, here, there := newStateDir(t), newMemory(t, "m"), newMemory(t, "m")
	h := openAt(t, dir, "old", here)
	ranIn(t, h, "owner", ContainerRequest{})
	closeTestHost(t, h)
	h = openAt(t, dir, "new", there)
	ctx := testkit.Context(t)
	if err := h.RetireWorker(ctx, "m", ""); err != nil {
		t.Fatal(err)
	}
	if err := h.AwaitDrained(ctx, "m", nil); err != nil {
		t.Fatal(err)
	}
	if got := stateOf(t, h, "owner"); got != lifecycle.ContainerLost {
		t.Errorf("what was at the old place is %s", got)
	}
	if err := h.UncordonWorker(ctx, "m"); err != nil {
		t.Fatal(err)
	}
	h.workers["m"].lookNow()
	testkit.Until(t, "it is used", func() bool { return reportOf(t, h, "m").Up })
	ranIn(t, h, "next", ContainerRequest{})
	closeTestHost(t, h)
	h = openAt(t, dir, "new", there)
	if r := reportOf(t, h, "m"); !r.Up || stateOf(t, h, "next") != lifecycle.ContainerReady {
		t.Errorf("begun once more, it is %+v", r)
	}
}

// TestElsewhereIsWaitedFor: a worker whose name leads elsewhere is waited for without an end, and again from the beginning once it does not.
func TestElsewhereIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorker("w", "p", 0, nil)
	w.setElsewhere(true)
	if w.isGone() || w.goneIn() <= 0 {
		t.Errorf("it is waited for for %v, and can be emptied: %t", w.goneIn(), w.isGone())
	}
	w.cutIfGone()
	if err := w.presence().Err(); err != nil {
		t.Errorf("what hangs on it is cut: %v", err)
	}
	was := w.report().Since
	w.setElsewhere(false)
	if !w.report().Since.After(was) || w.goneIn() != 0 {
		t.Errorf("once it does not, it is away since %v, before since %v", w.report().Since, was)
	}
}

// TestRetiredBeforeElsewhere: who has a worker emptied has its artifacts copied and its work come to its end. That its name leads to another place after that is no reason to give
// them up: only who retires it then does.
func TestRetiredBeforeElsewhere(t *testing.T) {
	t.Parallel()
	dir, here, there := newStateDir(t), newMemory(t, "m"), newMemory(t, "m")
	h := openAt(t, dir, "old", here)
	if _, err := h.Container(testkit.Context(t), "owner", ContainerRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := h.RetireWorker(testkit.Context(t), "m", ""); err != nil {
		t.Fatal(err)
	}
	closeTestHost(t, h)
	h = openAt(t, dir, "new", there)
	w := h.workers["m"]
	if done, err := h.drainOnce(testkit.Context(t), w, newMover(h, w)); done || err != nil || stateOf(t, h, "owner") != lifecycle.ContainerReady {
		t.Errorf("it is empty: %t, %v; what is at the old place is %s", done, err, stateOf(t, h, "owner"))
	}
	closeTestHost(t, h)
	h = openAt(t, dir, "old", here)
	if _, err := h.FindContainer(testkit.Context(t), "owner"); err != nil || stateOf(t, h, "owner") != lifecycle.ContainerReady {
		t.Errorf("with the settings put back it is %s, %v", stateOf(t, h, "owner"), err)
	}
}

// TestAcceptedIsNotElsewhere: a worker whose settings are put back while the place to which they lead does not answer is waited for as any that is away, and no longer.
func TestAcceptedIsNotElsewhere(t *testing.T) {
	t.Parallel()
	testkit.Bubble(t, func(t testing.TB) {
		w := newWorker("w", "p", time.Minute, nil)
		w.setElsewhere(true)
		ended := make(chan error, 1)
		go func() {
			_, err := w.acquirePatiently(t.Context())
			ended <- err
		}()
		time.Sleep(time.Hour)
		m := &unproven{holds: "something", seen: make(chan struct{}), accepted: make(chan struct{})}
		(&trial{workers: []*worker{w}, unproven: map[*worker]*unproven{w: m}}).accept()
		began := time.Now()
		if gone := (*WorkerGoneError)(nil); !errors.As(<-ended, &gone) || time.Since(began) != time.Minute || w.isElsewhere() {
			t.Errorf("it was waited for for %v more, elsewhere: %t", time.Since(began), w.isElsewhere())
		}
	})
}

// TestSettingsShowNoPassword: what is kept of settings, and told where they have changed, has no password in it, also of one that stands in an address.
func TestSettingsShowNoPassword(t *testing.T) {
	t.Parallel()
	const was, is = "http://10.0.0.5:7788", "http://user:hidden@10.0.0.6:7788"
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	settings := func(address string) map[string]string {
		f, diags := hclsyntax.ParseConfig([]byte(fmt.Sprintf("address = %q", address)), "f.hcl", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		cfg := testConfig("m")
		cfg.Workers[0].Body = f.Body
		p := h.newPlugin(cfg, cfg.Plugins[0])
		p.proc = told{h.allPlugins()[0].proc}
		return p.settingsOf("m")
	}
	before, now := settings(was), settings(is)
	if !strings.Contains(before["address"], was) || now["address"] == "" || strings.Contains(fmt.Sprint(now, differing(before, now)), "hidden") {
		t.Errorf("%v, %v: %s", before, now, differing(before, now))
	}
}

// told is a plugin's process that has told that its workers have an address.
type told struct{ process }

func (p told) State() launch.Report {
	r := p.process.State()
	r.Info.WorkerSchema.Fields = []sdk.Field{{Name: "address", Type: sdk.TypeString}}
	return r
}
