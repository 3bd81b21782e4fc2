package pool_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-run/slipway/host/pool"
)

func TestExplainReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := crowded(t)
		explain := func(owner string) string {
			w, _, ok := l.q.Find(owner)
			if !ok {
				t.Fatalf("%s does not wait", owner)
			}
			verdicts, err := l.q.Explain(w)
			full := (*pool.FullError)(nil)
			if !errors.As(err, &full) || len(verdicts) != 1 || full.Reasons[0].Detail != verdicts[0].Detail {
				t.Errorf("%+v, %v", verdicts, err)
			}
			return fmt.Sprintf("%s %s: %s", verdicts[0].Worker, verdicts[0].Reason, verdicts[0].Detail)
		}
		forBig := `for "big", passed by 1 that came later, for another 1m0s at most`
		if got, want := explain("small"), "w reserved: "+forBig; got != want {
			t.Errorf("small: %s\nwant %s", got, want)
		}
		const until = "; reserved for it, for another 1m0s at most: nobody gets a place there who would be in its way"
		if got, want := explain("big"), "w volumes: 2 of 2 volumes, of which 2 are claimed; 2 volumes wanted"+until; got != want {
			t.Errorf("big: %s\nwant %s", got, want)
		}
		if got := l.p.Explain(l.x, pool.Spec{Priority: 1, Volumes: 1}); got[0].Reason != pool.FullVolumes {
			t.Errorf("a higher priority: %+v", got)
		}
		time.Sleep(20 * time.Second) // of the bubble
		forBig = strings.Replace(forBig, "1m0s", "40s", 1)
		_, err := l.p.Choose(l.x, pool.Spec{Volumes: 1})
		want := "no place free for 1 volume: 1 reserved for another (w: " + forBig + "): wait, raise the limit, or add a worker"
		if err == nil || err.Error() != want {
			t.Errorf("Choose: %v\nwant %s", err, want)
		}
		l.x.Release("v1")
		l.x.Release("v2")
		if got := l.q.Waiting(); len(got) != 1 || got[0].Owner != "small" {
			t.Errorf("%+v", got)
		}
	})
}

// A reserved worker takes whoever needs nothing of what its waiter waits for, or leaves enough of it; and as those pass nobody, no worker is reserved for
// their sake.
func TestReservationsHoldUpOnlyWhoIsInTheWay(t *testing.T) {
	gib := func(n int64) pool.Resources { return pool.Resources{MemoryBytes: n << 30} }
	with := func(s pool.Spec, change func(*pool.Spec)) pool.Spec { change(&s); return s }
	inputs := func(keys ...string) (out []pool.Content) {
		for _, k := range keys {
			out = append(out, pool.Content{Key: k})
		}
		return out
	}
	limits := func(l pool.Limits) func(*pool.Worker) { return func(w *pool.Worker) { w.Limits = l } }
	memory := func(w *pool.Worker) { w.Capacity = gib(4) }
	volumes := pool.Spec{Volumes: 2}
	tests := []struct {
		name   string
		worker pool.Worker
		first  pool.Spec // of the three that come before, of whom one stays
		waits  pool.Spec
		comes  pool.Spec
		placed bool
	}{
		{"no volume, where volumes are waited for", running("w", limits(pool.Limits{Volumes: 2})), pool.Spec{Volumes: 1}, volumes, pool.Spec{}, true},
		{"a volume, where volumes are waited for", running("w", limits(pool.Limits{Volumes: 2})), pool.Spec{Volumes: 1}, volumes, pool.Spec{Volumes: 1}, false},
		{"an input that is not there, where volumes are waited for", running("w", limits(pool.Limits{Volumes: 2})), pool.Spec{Volumes: 1}, volumes,
			pool.Spec{Inputs: inputs("k")}, false},
		{"an input that is there", running("w", limits(pool.Limits{Volumes: 3})), with(pool.Spec{}, func(s *pool.Spec) { s.Inputs = inputs("k"); s.Volumes = 1 }),
			pool.Spec{Volumes: 3}, pool.Spec{Inputs: inputs("k")}, true},
		{"an input that is waited for, too", running("w", limits(pool.Limits{Volumes: 3})), pool.Spec{Volumes: 1},
			pool.Spec{Volumes: 2, Inputs: inputs("k")}, pool.Spec{Inputs: inputs("k")}, true},
		{"the last place beside it", running("w", limits(pool.Limits{Volumes: 2, Containers: 2})), pool.Spec{Volumes: 1}, volumes, pool.Spec{}, false},
		{"a place that leaves it one", running("w", limits(pool.Limits{Volumes: 2, Containers: 3})), pool.Spec{Volumes: 1}, volumes, pool.Spec{}, true},
		{"a task", running("w", limits(pool.Limits{Volumes: 2, Tasks: 2})), pool.Spec{Volumes: 1}, volumes, pool.Spec{}, false},
		{"a check", running("w", limits(pool.Limits{Volumes: 2, Tasks: 2})), pool.Spec{Volumes: 1}, volumes, pool.Spec{Kind: pool.Check}, true},
		{"no memory, where memory is waited for", running("w", memory), pool.Spec{Resources: gib(2)}, pool.Spec{Resources: gib(4)}, volumes, true},
		{"memory, where memory is waited for", running("w", memory), pool.Spec{Resources: gib(2)}, pool.Spec{Resources: gib(4)}, pool.Spec{Resources: gib(1)}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(t, pool.Options{MaxPassed: 1}, tt.worker)
				l.wait("stays", tt.first)
				l.wait("goes", tt.first)
				l.wait("waits", tt.waits)
				l.waiting("waits")
				l.x.Release("goes")
				l.wait("passes", tt.first)
				l.want("stays", "goes", "passes")
				l.reserved("waits=w")
				l.x.Release("passes")
				l.wait("comes", tt.comes)
				if got := l.served("comes"); got != tt.placed {
					t.Errorf("placed: %t, want %t", got, tt.placed)
				}
				l.reserved("waits=w")
				if !tt.placed {
					return
				}
				l.x.Release("comes")
				l.x.Release("stays")
				if !l.served("waits") {
					t.Error("what comes is in the way of what waits")
				}
			})
		})
	}
	t.Run("they pass nobody", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newLine(t, pool.Options{MaxPassed: 1}, running("w", func(w *pool.Worker) { w.Limits.Volumes = 2 }))
			l.wait("stays", pool.Spec{Volumes: 1})
			l.wait("waits", volumes)
			for i := range 3 {
				l.wait(fmt.Sprint("check", i), pool.Spec{Kind: pool.Check})
			}
			l.reserved()
			if w, _, _ := l.q.Find("waits"); w.Passed != 0 {
				t.Errorf("passed by %d", w.Passed)
			}
		})
	})
	t.Run("an input is claimed while they wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newLine(t, pool.Options{MaxPassed: 1}, running("w", func(w *pool.Worker) { w.Limits.Volumes = 4 }))
			for _, o := range []string{"a", "b", "c", "d"} {
				l.wait(o, pool.Spec{Volumes: 1})
			}
			l.wait("waits", pool.Spec{Volumes: 4})
			l.x.Release("a")
			l.wait("passes", pool.Spec{Volumes: 1})
			l.reserved("waits=w")
			l.x.Release("b")
			l.wait("comes", pool.Spec{Inputs: inputs("k")})
			l.waiting("waits", "comes")
			l.wait("urgent", pool.Spec{Priority: 1, Inputs: inputs("k")}) // brings it
			if !l.served("comes") {
				t.Error("it waits though what it needs is there")
			}
		})
	})
}

// How many may pass holds for those who wait already.
func TestMaxPassedChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{MaxPassed: 3}, running("w", volumes(2)))
		l.wait("stays", pool.Spec{Volumes: 1})
		l.wait("big", pool.Spec{Volumes: 2})
		l.wait("v0", pool.Spec{Volumes: 1})
		l.reserved()
		if err := l.q.SetRules(pool.Policy{}, pool.Options{MaxPassed: 2}); err != nil {
			t.Fatal(err)
		}
		l.x.Release("v0")
		l.wait("v1", pool.Spec{Volumes: 1})
		l.reserved("big=w")
	})
}
