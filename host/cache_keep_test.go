package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// An artifact that becomes a run's input while somebody keeps it under a key stays the run's: else it would go while the run needs it.
func TestInputOfARunIsNoCache(t *testing.T) {
	t.Parallel()
	testkit.Bubble(t, func(t testing.TB) {
		h := openHost(t, newMemory(t, "m"), Options{}, "m")
		ctx := testkit.Context(t)
		a, err := h.Upload(ctx, Upload{Name: "upload"}, strings.NewReader(string(archiveOf(t, "", map[string]string{"f": "x"}))))
		if err != nil {
			t.Fatal(err)
		}
		change := func(of func(*store.Artifact)) error {
			return h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
				row, err := tx.Artifact(a.ID)
				if err != nil {
					return err
				}
				of(&row)
				return tx.PutArtifact(row)
			})
		}
		let, begun, taken, kept := make(chan struct{}), make(chan struct{}), make(chan error, 1), make(chan error, 1)
		go func() {
			taken <- change(func(row *store.Artifact) {
				close(begun)
				<-let
				row.Owner = RunOwner("r", "")
			})
		}()
		<-begun
		go func() { _, err := h.KeepCache(ctx, a, CacheRequest{Key: "k"}); kept <- err }()
		synctest.Wait() // it waits for its turn to write
		close(let)
		if err := <-taken; err != nil {
			t.Fatal(err)
		}
		if err := <-kept; !errors.Is(err, sdk.Invalid) {
			t.Errorf("keeping what a run has taken: %v", err)
		}
		if _, err := h.FindCache(ctx, "", "k", h.clock.wall()); !sdk.IsNotFound(err, KindArtifact) {
			t.Errorf("under the key: %v", err)
		}
		if err := change(func(row *store.Artifact) { row.Owner = "" }); err != nil {
			t.Fatal(err)
		}
		if _, err := h.KeepCache(ctx, a, CacheRequest{Key: "k"}); err != nil {
			t.Errorf("once it is nobody's: %v", err)
		}
	})
}

// kept keeps an artifact under the key k, and tells which is valid there from then on; "": none.
func kept(t *testing.T, h *Host, a *Artifact, ttl time.Duration) string {
	t.Helper()
	valid, err := h.KeepCache(testkit.Context(t), a, CacheRequest{Key: "k", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return nameOf(valid)
}

// found is what is under the key k at a time; "": nothing.
func found(t *testing.T, h *Host, at time.Time) string {
	t.Helper()
	a, err := h.FindCache(testkit.Context(t), "", "k", at)
	if err != nil && !sdk.IsNotFound(err, KindArtifact) {
		t.Fatal(err)
	}
	return nameOf(a)
}

func nameOf(a *Artifact) string {
	if a == nil {
		return ""
	}
	return a.Name
}

// TestKeptByTwo: two clients find nothing under a key, and each keeps what it has made. The last one's is valid; the other's can be used for a grace yet, or for its own
// time to live if that is less, also where it is kept again as after a lost answer, and then goes.
func TestKeptByTwo(t *testing.T) {
	t.Parallel()
	for name, ttl := range map[string]time.Duration{"long": lives, "short": testTiming.MissingGrace / 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clk := newTestClock()
			h := openHost(t, newMemory(t, "m"), Options{clock: clk.clock()}, "m")
			stays := min(ttl, h.cfg().Timing.MissingGrace)
			clk.pass(time.Hour)
			one, other := uploaded(t, h, "one"), uploaded(t, h, "other")
			for i, valid := range []string{kept(t, h, one, ttl), kept(t, h, other, lives), kept(t, h, one, ttl)} {
				if want := []string{"one", "other", "other"}[i]; valid != want {
					t.Errorf("call %d of KeepCache says that %q is valid, want %q", i+1, valid, want)
				}
			}
			if got := found(t, h, time.Time{}); got != "other" {
				t.Errorf("under the key is %q", got)
			}
			clk.pass(stays - 1)
			reapAll(t, h)
			c, err := h.Container(testkit.Context(t), "owner", ContainerRequest{Inputs: []Input{{one, "in"}}})
			if err != nil {
				t.Fatalf("whoever kept the first uses it: %v", err)
			}
			if err := c.Destroy(testkit.Context(t)); err != nil {
				t.Fatal(err)
			}
			clk.pass(1)
			reapAll(t, h)
			if !expired(t, h, one) {
				t.Error("the first stays")
			}
			if got := found(t, h, time.Time{}); got != "other" {
				t.Errorf("under the key is %q in the end", got)
			}
		})
	}
}

// TestKeptAgain: keeping an artifact again, as after a lost answer, makes it not valid again, nor puts it in the place of what was kept since.
func TestKeptAgain(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	one, other := uploaded(t, h, "one"), uploaded(t, h, "other")
	want := func(valid, want string) {
		t.Helper()
		if now := found(t, h, time.Time{}); valid != want || now != want {
			t.Errorf("KeepCache says that %q is valid, and %q is found, want %q", valid, now, want)
		}
	}
	want(kept(t, h, one, 0), "one")
	want(kept(t, h, one, 0), "one")
	before := time.Now()
	if err := h.InvalidateCache(testkit.Context(t), "", "k"); err != nil {
		t.Fatal(err)
	}
	want(kept(t, h, one, 0), "")
	if got := found(t, h, before); got != "one" {
		t.Errorf("as it was before, %q is found", got)
	}
	want(kept(t, h, other, 0), "other")
	want(kept(t, h, one, 0), "other")
}

// TestInvalidatedWhileMade: what is being made when its key is invalidated is given to those who wait for it, and to nobody else; who comes after that has it made anew, and
// waits for that alone, whichever is done first.
func TestInvalidatedWhileMade(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"stale", "fresh"} {
		t.Run(last+" is done last", func(t *testing.T) {
			t.Parallel()
			h := openHost(t, newMemory(t, "m"), Options{}, "m")
			ctx := testkit.Context(t)
			let := map[string]chan struct{}{"stale": make(chan struct{}), "fresh": make(chan struct{})}
			got := map[string]chan string{"stale": make(chan string, 2), "fresh": make(chan string, 1)}
			begun := make(chan struct{})
			ask := func(name string) {
				a, _, err := h.Cached(ctx, CacheRequest{Key: "k", Make: func(ctx context.Context) (*Artifact, error) {
					begun <- struct{}{}
					<-let[name]
					return h.UploadFiles(ctx, Upload{Name: name}, stream.File{Name: "f", Data: []byte(name)})
				}})
				if err != nil {
					t.Error(err)
				}
				got[name] <- nameOf(a)
			}
			begins := func(what string) {
				t.Helper()
				select {
				case <-begun:
				case <-ctx.Done():
					t.Fatalf("%s is not made", what)
				}
			}
			go ask("stale")
			begins("what the first asks for")
			go ask("stale")
			testkit.Until(t, "another waits for it", func() bool {
				h.caching.mu.Lock()
				defer h.caching.mu.Unlock()
				return h.caching.by[resourceCacheKey("", "k")].waiting == 2
			})
			if err := h.InvalidateCache(ctx, "", "k"); err != nil {
				t.Fatal(err)
			}
			go ask("fresh")
			begins("what is asked for after that")
			first := map[string]string{"stale": "fresh", "fresh": "stale"}[last]
			for _, name := range []string{first, last} {
				close(let[name])
				for range cap(got[name]) {
					if a := <-got[name]; a != name {
						t.Errorf("who waits for what is %s gets %s", name, a)
					}
				}
				want := ""
				if name == "fresh" || first == "fresh" {
					want = "fresh"
				}
				if a := found(t, h, time.Time{}); a != want {
					t.Errorf("once what is %s is done, %q is under the key, want %q", name, a, want)
				}
			}
			if len(h.makings) > 0 {
				t.Errorf("%d are noted as being made", len(h.makings))
			}
		})
	}
}

// TestSupersededGoesWhenLetGo: a step's cache that is needed when a newer one takes its place goes as soon as nobody needs it, and waits for no reaper.
func TestSupersededGoesWhenLetGo(t *testing.T) {
	t.Parallel()
	clk := newTestClock()
	ctx, key := testkit.Context(t), TaskCacheKey("", "j", "s", "c")
	h, err := Open(ctx, testConfig("m"), Options{StateDir: newStateDir(t), clock: clk.clock(), Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "m")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTestHost(t, h) })
	if err := h.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	clk.pass(time.Hour)
	begin := func(owner string) *Container {
		t.Helper()
		c, err := h.Container(ctx, owner, ContainerRequest{Caches: []Cache{{Key: key, Path: "c"}}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first, second := begin("first"), begin("second") // neither has a copy of what the other leaves
	if err := first.SaveCaches(ctx); err != nil {
		t.Fatal(err)
	}
	held := &holds{h: h}
	old, err := h.useCache(ctx, key, time.Time{}, held.add)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.SaveCaches(ctx); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it was looked at", func() bool {
		h.expiries.mu.Lock()
		defer h.expiries.mu.Unlock()
		return h.expiries.held[artifactThing(old.ID)]
	})
	if expired(t, h, old) {
		t.Error("it is gone while it is needed")
	}
	held.letGo()
	testkit.Until(t, "it is gone", func() bool { return expired(t, h, old) })
}
