package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestExpiryWhileItsTimerIsSet: what expires between the look at the clock and the timer is looked at all the same: a timer that was set too late would not come.
func TestExpiryWhileItsTimerIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		now := time.Now()
		c := clock{wall: func() time.Time { return now }, after: func(d time.Duration) <-chan time.Time {
			now = now.Add(d)
			return nil
		}}
		var x expiries
		x.note(artifactThing("a"), now.Add(time.Hour))
		looks := 0
		x.run(ctx, c, func(reap.Thing) (time.Time, bool) {
			looks++
			cancel()
			return time.Time{}, false
		})
		if looks != 1 {
			t.Errorf("it was looked at %d times", looks)
		}
	})
}

// TestExpiriesComeInTime: each thing is looked at when its time has come and not between, the soonest first, whenever that was told; what is held is when it is let go.
func TestExpiriesComeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var x expiries
		began := time.Now()
		var mu sync.Mutex // protects looked
		var looked []string
		wakes := 0
		c := realClock()
		timer := c.after
		c.after = func(d time.Duration) <-chan time.Time { wakes++; return timer(d) }
		answers := map[string]func() (time.Time, bool){
			"b used since": func() (time.Time, bool) { return began.Add(5 * time.Hour), false },
			"c held":       func() (time.Time, bool) { return time.Time{}, true },
			"e ends while it is looked at": func() (time.Time, bool) {
				x.letGo(containerThing("e ends while it is looked at"), time.Now())
				return time.Time{}, true
			},
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			x.run(ctx, c, func(thing reap.Thing) (time.Time, bool) {
				mu.Lock()
				defer mu.Unlock()
				looked = append(looked, fmt.Sprintf("%s after %s", thing.ID, time.Since(began)))
				answer := answers[thing.ID]
				delete(answers, thing.ID)
				if answer == nil {
					return time.Time{}, false
				}
				return answer()
			})
		}()
		note := func(id string, in time.Duration) { x.note(containerThing(id), began.Add(in)) }
		want := func(at time.Duration, more ...string) {
			t.Helper()
			time.Sleep(time.Until(began.Add(at))) // of the bubble
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(looked, more) {
				t.Errorf("after %s these were looked at: %q, want %q", at, looked, more)
			}
			looked = nil
		}
		synctest.Wait()
		note("d", 3*time.Hour)
		note("a", time.Hour)
		note("b used since", 2*time.Hour)
		note("a", 4*time.Hour) // it was told a sooner time
		want(time.Hour-1, []string{}...)
		want(time.Hour, "a after 1h0m0s")
		want(2*time.Hour, "b used since after 2h0m0s")
		note("c held", 150*time.Minute)
		note("d", 140*time.Minute)
		note("past", time.Minute)
		want(2*time.Hour, "past after 2h0m0s")
		want(150*time.Minute, "d after 2h20m0s", "c held after 2h30m0s")
		x.letGo(containerThing("c held"), time.Now())
		x.letGo(containerThing("d"), time.Now()) // nobody holds it
		want(150*time.Minute, "c held after 2h30m0s")
		note("e ends while it is looked at", 3*time.Hour)
		want(3*time.Hour, "e ends while it is looked at after 3h0m0s", "e ends while it is looked at after 3h0m0s")
		note("f goes before", 4*time.Hour)
		x.forget(containerThing("f goes before"))
		want(6*time.Hour, "b used since after 5h0m0s")
		want(1000 * time.Hour)
		if wakes > 20 {
			t.Errorf("it has set %d timers", wakes)
		}
		cancel()
		<-done
		if len(x.at)+len(x.order)+len(x.held) > 0 {
			t.Errorf("something is left: %+v", x.held)
		}
	})
}

// TestExpiredInTime: a container that nobody uses, and an artifact that nobody owns, go when their time has passed and no reaper looks for an hour; so does what an
// earlier host has left, and a container whose process has run for longer.
func TestExpiredInTime(t *testing.T) {
	t.Parallel()
	rt, clk := newMemory(t, "m"), newTestClock()
	opts := Options{StateDir: newStateDir(t), clock: clk.clock(), Runtimes: map[string]sdk.Runtime{"memory": rt}}
	open := func() *Host {
		t.Helper()
		h, err := Open(t.Context(), testConfig("m"), opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeTestHost(t, h) })
		if err := h.Ready(testkit.Context(t)); err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := open()
	container := func(owner string, ttl time.Duration) *Container {
		t.Helper()
		c, err := h.Container(testkit.Context(t), owner, ContainerRequest{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	gone := func(owner string) {
		t.Helper()
		testkit.Until(t, owner+" is gone", func() bool { return stateOf(t, h, owner) == lifecycle.ContainerDestroyed })
	}
	there := func(owner string) {
		t.Helper()
		if got := stateOf(t, h, owner); got != lifecycle.ContainerReady {
			t.Errorf("%s is %s", owner, got)
		}
	}
	container("short", time.Minute)
	works := container("works", time.Minute)
	container("long", time.Hour)
	container("late", 2*time.Hour)
	if err := container("removed", time.Hour).Destroy(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	p, err := works.Start(t.Context(), "p", ProcessRequest{Path: "sh", Args: []string{"-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"}})
	if err == nil {
		_, err = firstRecord(t, p)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Upload(testkit.Context(t), Upload{Name: "upload", TTL: time.Minute}, strings.NewReader(string(archiveOf(t, "", map[string]string{"f": "x"})))); err != nil {
		t.Fatal(err)
	}
	clk.pass(time.Minute)
	gone("short")
	testkit.Until(t, "the upload is gone", func() bool { _, err := h.Artifact(t.Context(), "upload"); return sdk.IsNotFound(err, KindArtifact) })
	there("works")
	if err := p.Signal(t.Context(), "TERM"); err != nil {
		t.Fatal(err)
	}
	waitOutcome(t, p)
	clk.pass(time.Minute)
	gone("works")
	there("long")
	clk.pass(time.Hour)
	gone("long")
	there("late")
	closeTestHost(t, h)
	h = open()
	there("late")
	clk.pass(time.Hour)
	gone("late")
	testkit.Until(t, "nothing is left to be looked at", func() bool {
		h.expiries.mu.Lock()
		defer h.expiries.mu.Unlock()
		return len(h.expiries.at)+len(h.expiries.order)+len(h.expiries.held) == 0
	})
	if rows := artifactsLeft(t, h); rows > 0 {
		t.Errorf("%d artifacts are left", rows)
	}
}

// TestExpiriesFollowTheRows: when something is to be looked at is what the rows say, also where a change of them is undone.
func TestExpiriesFollowTheRows(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	c, err := h.Container(testkit.Context(t), "o", ContainerRequest{TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	a, err := h.Upload(testkit.Context(t), Upload{Name: "upload", TTL: time.Hour}, strings.NewReader(string(archiveOf(t, "", map[string]string{"f": "x"}))))
	if err != nil {
		t.Fatal(err)
	}
	noted := func() map[reap.Thing]time.Time {
		h.expiries.mu.Lock()
		defer h.expiries.mu.Unlock()
		out := make(map[reap.Thing]time.Time)
		for thing, e := range h.expiries.at {
			out[thing] = e.at
		}
		return out
	}
	before := noted()
	if len(before) != 2 {
		t.Fatalf("noted are %v", before)
	}
	undo := errors.New("undo")
	err = h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error {
		row, err := tx.Artifact(a.ID)
		if err != nil {
			return err
		}
		row.ExpiresAt = row.CreatedAt
		_, doomed := h.doomContainer(tx, string(c.id), doom{})
		if err := errors.Join(doomed, h.putArtifact(tx, row), h.deleteArtifact(tx, a.ID)); err != nil {
			return err
		}
		return undo
	})
	if after := noted(); !errors.Is(err, undo) || !maps.Equal(before, after) {
		t.Errorf("after %v, noted are %v, before it %v", err, after, before)
	}
}

func artifactsLeft(t *testing.T, h *Host) (n int) {
	t.Helper()
	if err := h.store.View(t.Context(), func(tx *store.Tx) error {
		rows, err := tx.Artifacts(store.ArtifactFilter{})
		n = len(rows)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
