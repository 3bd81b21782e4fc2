package pool_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-run/slipway/host/pool"
)

// Who waits for a reserved worker can be told until when, what is too little there, and who has of that.
func TestInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{MaxPassed: 1}, running("w", func(w *pool.Worker) { w.Limits.Volumes = 2; w.Capacity.CPUMillis = 2000 }))
		l.wait("v0", pool.Spec{Volumes: 1})
		l.wait("v1", pool.Spec{Volumes: 1})
		l.wait("cpu", pool.Spec{Resources: pool.Resources{CPUMillis: 1000}})
		l.wait("check", pool.Spec{Kind: pool.Check})
		time.Sleep(5 * time.Minute) // of the bubble
		l.wait("big", pool.Spec{Volumes: 2, Resources: pool.Resources{CPUMillis: 2000}})
		time.Sleep(2 * time.Minute)
		l.x.Release("v0")
		l.wait("v2", pool.Spec{Volumes: 1})
		began := time.Now()
		l.reserved("big=w")
		inTheWay := func(want string, wantVolumes bool) {
			t.Helper()
			w, _, _ := l.q.Find("big")
			if !w.Until.Equal(began.Add(2 * time.Minute)) {
				t.Errorf("reserved until %v, want %v", w.Until, began.Add(2*time.Minute))
			}
			got, volumes := l.q.InTheWay(w)
			if got.String() != want || volumes != wantVolumes {
				t.Errorf("in the way are %s, and volumes %t, want %s, and %t", got, volumes, want, wantVolumes)
			}
		}
		const cpu = "the container of cpu (1000 milli-CPUs)"
		inTheWay(cpu, true)
		if got, want := l.x.Claims("w").String(), "the container of v1 (1 volume claimed), the container of v2 (1 volume claimed)"; got != want {
			t.Errorf("volumes are claimed by %s, want %s", got, want)
		}
		time.Sleep(time.Minute)
		l.x.Release("v1")
		l.x.Release("v2")
		inTheWay(cpu, false)
	})
}

// Who holds up somebody is told with what it has of what is too little, and with nothing else.
func TestHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := running("w", func(w *pool.Worker) {
			w.Limits = pool.Limits{Volumes: 3}
			w.Capacity = pool.Resources{CPUMillis: 2000, MemoryBytes: 100}
		})
		l := newLine(t, pool.Options{MaxPassed: 1}, w)
		l.wait("both", pool.Spec{Resources: pool.Resources{CPUMillis: 1000, MemoryBytes: 10}})
		l.wait("memory", pool.Spec{Resources: pool.Resources{MemoryBytes: 20}})
		l.wait("content", pool.Spec{Inputs: []pool.Content{{Key: "a"}, {Key: "b"}}})
		l.wait("same", pool.Spec{Volumes: 1, Inputs: []pool.Content{{Key: "a"}}})
		if got, want := l.x.Claims("w").String(), "the container of content (2 volumes claimed), the container of same (2 volumes claimed)"; got != want {
			t.Errorf("volumes are claimed by %s, want %s", got, want)
		}
		l.wait("big", pool.Spec{Resources: pool.Resources{CPUMillis: 2000, MemoryBytes: 10}})
		l.wait("small", pool.Spec{Resources: pool.Resources{CPUMillis: 500}})
		l.reserved("big=w")
		big, _, _ := l.q.Find("big")
		if got, volumes := l.q.InTheWay(big); got.String() != "the container of both (1000 milli-CPUs), the container of small (500 milli-CPUs)" || volumes {
			t.Errorf("in the way are %s, and volumes: %t", got, volumes)
		}
		w.Limits.Containers = 1
		l.x.Upsert(w)
		if got, _ := l.q.InTheWay(big); len(got) != 5 || got[1].String() != "the container of content (a place)" {
			t.Errorf("with too many containers, in the way are %s", got)
		}
	})
	all := make(pool.Holders, 10)
	for i := range all {
		all[i] = pool.Holder{Artifact: fmt.Sprint("a", i), Volumes: i + 1, Why: "it is needed"}
	}
	if got := all.String(); !strings.HasPrefix(got, "artifact a0 (1 volume, it is needed), artifact a1 (2 volumes, it is needed), ") || !strings.HasSuffix(got, ", and 2 more") {
		t.Errorf("ten are told as %s", got)
	}
}

// A team is told how much others have, and that somebody waits for a worker that is reserved, but neither who nor why.
func TestTeamsAreToldNoOthersNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{MaxPassed: 1}, running("w", func(w *pool.Worker) { w.Limits.Volumes = 2 }))
		l.wait("v0", pool.Spec{Team: "blue", Volumes: 1})
		l.wait("v1", pool.Spec{Volumes: 1})
		l.wait("big", pool.Spec{Team: "blue", Volumes: 2})
		l.x.Release("v0")
		l.wait("v2", pool.Spec{Team: "blue", Volumes: 1})
		l.reserved("big=w")
		for team, want := range map[string]string{
			"":     "the container of v1 (1 volume claimed), the container of v2 (1 volume claimed)",
			"blue": "the container of v1 (1 volume claimed), the container of v2 (1 volume claimed)",
			"red":  "the container of v1 (1 volume claimed), what other teams have (1 volume claimed)",
		} {
			if got := l.x.Claims("w").SeenBy(team).String(); got != want {
				t.Errorf("team %q is told of %s, want %s", team, got, want)
			}
			who := `for "big", `
			if team == "red" {
				who = "for " + pool.AnotherTeams + ", "
			}
			if got := l.p.Explain(l.x, pool.Spec{Team: team, Volumes: 1}); !strings.HasPrefix(got[0].Detail, who) {
				t.Errorf("team %q is told that the worker is reserved %s, want %s", team, got[0].Detail, who)
			}
		}
		l.wait("red", pool.Spec{Team: "red", Volumes: 1})
		w, _, _ := l.q.Find("red")
		for all, who := range map[bool]string{true: `for "big", `, false: "for " + pool.AnotherTeams + ", "} {
			w.All = all
			if got, _ := l.q.Explain(w); !strings.HasPrefix(got[0].Detail, who) {
				t.Errorf("one who waits, all of it: %t, is told %s, want %s", all, got[0].Detail, who)
			}
		}
		got := pool.Holders{{Artifact: "a", Team: "blue", Volumes: 2, Why: "secret"}, {Cache: "c", Team: "blue", Volumes: 1}, {Going: true, Volumes: 1}, {Artifact: "b", Volumes: 1, Why: "secret"}}.SeenBy("red").String()
		if want := "what is being destroyed (1 volume), artifact b (1 volume), what other teams have (3 volumes)"; got != want {
			t.Errorf("it is told %s, want %s", got, want)
		}
	})
}
