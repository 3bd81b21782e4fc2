package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// fullWorker is a host on workers a and b, of which a has a limit of volumes.
func fullWorker(t *testing.T, limit int, opts Options, with func(*hooked)) (*Host, *hooked) {
	t.Helper()
	o := &hooked{Runtime: newMemory(t, "a", "b")}
	if with != nil {
		with(o)
	}
	cfg := testConfig("a", "b")
	cfg.Workers[0].Limits.Volumes = limit
	opts.Runtimes = map[string]sdk.Runtime{"memory": o}
	return openConfig(t, cfg, opts), o
}

// replicateAll makes replicas of artifacts on workers, one after the other.
func replicateAll(t testing.TB, h *Host, all []*Artifact, workers ...string) {
	t.Helper()
	for _, w := range workers {
		for _, a := range all {
			if _, err := h.replicate(t.Context(), a, mustWorker(t, h, w), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// contentsOn names those of the artifacts that have a sealed volume on a worker.
func contentsOn(t testing.TB, h *Host, worker string, all []*Artifact) string {
	t.Helper()
	rows, err := h.volumes(t.Context(), store.VolumeFilter{Worker: worker, States: []string{lifecycle.VolumeSealed}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range all {
		if slices.ContainsFunc(rows, func(v store.Volume) bool { return v.Artifact == a.ID }) {
			names = append(names, a.Name)
		}
	}
	return strings.Join(names, " ")
}

// askFor asks for a container on worker a and gives what tells how that ended.
func askFor(t *testing.T, h *Host, owner string, outputs int, inputs ...*Artifact) <-chan error {
	t.Helper()
	req := wants(inputs...)
	req.WaitLimit, req.Exclude = 0, map[string]string{"b": "by the test"}
	for i := range outputs {
		name := fmt.Sprint("o", i)
		req.Outputs = append(req.Outputs, Output{Name: name, Path: name})
	}
	done := make(chan error, 1)
	go func() {
		_, err := h.Container(t.Context(), owner, req)
		done <- err
	}()
	return done
}

func placedSoon(t *testing.T, done <-chan error, what string) {
	t.Helper()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-testkit.Context(t).Done():
		t.Fatalf("%s has no place", what)
	}
}

// waitsInVain waits until an owner waits and room was looked for to no avail.
func waitsInVain(t *testing.T, h *Host, owner string) {
	t.Helper()
	testkit.Until(t, owner+" waits", func() bool { _, _, ok := h.queue.Find(owner); return ok })
	before := h.index.Usage("a")
	if err := h.makeRoom(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := h.queue.Find(owner); !ok || h.index.Usage("a") != before {
		t.Errorf("%s waits %t, and of %+v this is left: %+v", owner, ok, before, h.index.Usage("a"))
	}
}

// nowhere is where nothing can be copied to from a full worker.
var nowhere = BlobLimits{Total: -1}

// On a full worker, replicas that another worker has as well go for those who wait, that first which was used the longest ago, and only as many as they need. The
// last replica of a content stays, until there is another.
func TestRoomIsMade(t *testing.T) {
	t.Parallel()
	h, _ := fullWorker(t, 4, Options{Blobs: nowhere}, nil)
	if err := h.CordonWorker(t.Context(), "b", "by the test"); err != nil {
		t.Fatal(err)
	}
	all := dirs(t, h, "i", "j", "k")
	replicateAll(t, h, []*Artifact{all[2], all[1], all[0]}, "a")
	replicateAll(t, h, all[:2], "b")
	placedSoon(t, askFor(t, h, "first", 2), "for two volumes, where there is room for one")
	if left := contentsOn(t, h, "a", all); left != "i k" {
		t.Errorf("on a there are %s", left)
	}
	placedSoon(t, askFor(t, h, "second", 1), "for one more")
	if left := contentsOn(t, h, "a", all); left != "k" {
		t.Errorf("on a there are %s", left)
	}
	third := askFor(t, h, "third", 1)
	waitsInVain(t, h, "third")
	if left := contentsOn(t, h, "a", all); left != "k" {
		t.Errorf("the last of its content: on a there are %q", left)
	}
	replicateAll(t, h, all[2:], "b")
	placedSoon(t, third, "once there is another")
	if left, other := contentsOn(t, h, "a", all), contentsOn(t, h, "b", all); left != "" || other != "i j k" || volumesOn(t, h.opts.Runtimes["memory"], "a") != 4 {
		t.Errorf("on a there are %q, on b %q", left, other)
	}
}

// What something is made of, has mounted, reads, or is about to use, stays for as long as that goes on; and so does an input of who waits.
func TestUsedReplicasStay(t *testing.T) {
	t.Parallel()
	for use, begin := range map[string]func(t *testing.T, h *Host, a *Artifact) (end func()){
		"a copy of it is in a container": func(t *testing.T, h *Host, a *Artifact) func() {
			return containerOn(t, h, ContainerRequest{Inputs: []Input{{Artifact: a, Path: "p"}}})
		},
		"a container has mounted it": func(t *testing.T, h *Host, a *Artifact) func() {
			return containerOn(t, h, ContainerRequest{Shared: []Input{{Artifact: a, Path: "p"}}})
		},
		"somebody reads it": func(_ *testing.T, h *Host, a *Artifact) func() { return h.using(a.ID) },
		"a place was given for it": func(t *testing.T, h *Host, a *Artifact) func() {
			if _, err := h.queue.Acquire(t.Context(), "o", pool.Spec{With: "a", Inputs: []pool.Content{{Key: a.ID}}}); err != nil {
				t.Fatal(err)
			}
			return func() { h.index.GiveBack("o") }
		},
	} {
		t.Run(use, func(t *testing.T) {
			t.Parallel()
			h, _ := fullWorker(t, 3, Options{}, nil)
			all := dirs(t, h, "i")
			replicateAll(t, h, all, "a", "b")
			end := begin(t, h, all[0])
			n := 3 - h.index.Usage("a").Volumes + 1
			done := askFor(t, h, "waits", n)
			waitsInVain(t, h, "waits")
			end()
			placedSoon(t, done, "once that is over")
		})
	}
	t.Run("who waits needs it", func(t *testing.T) {
		t.Parallel()
		h, _ := fullWorker(t, 4, Options{}, nil)
		all := dirs(t, h, "i")
		replicateAll(t, h, all, "a", "b")
		placedSoon(t, askFor(t, h, "first", 2), "up to the limit but one")
		done := askFor(t, h, "second", 1, all[0])
		waitsInVain(t, h, "second")
		if left := contentsOn(t, h, "a", all); left != "i" {
			t.Errorf("on a there are %q", left)
		}
		c, err := h.FindContainer(t.Context(), "first")
		if err == nil {
			err = c.Destroy(t.Context())
		}
		placedSoon(t, done, "once there is room")
		if err != nil {
			t.Error(err)
		}
	})
}

// containerOn makes a container on worker a, and gives what destroys it.
func containerOn(t *testing.T, h *Host, req ContainerRequest) func() {
	t.Helper()
	req.Exclude = map[string]string{"b": "by the test"}
	c, err := h.Container(t.Context(), "user", req)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := c.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A replica that comes into use after it was chosen stays: whoever looked it up before finds it there.
func TestChosenReplicaComesIntoUse(t *testing.T) {
	t.Parallel()
	var h *Host
	var all []*Artifact
	var times atomic.Int64
	var end func()
	h, _ = fullWorker(t, 1, Options{fault: func(point string) {
		if point == "replica-doomed" && times.Add(1) == 1 {
			end = h.using(all[0].ID)
		}
	}}, nil)
	all = dirs(t, h, "i")
	replicateAll(t, h, all, "a", "b")
	done := askFor(t, h, "waits", 1)
	testkit.Until(t, "it was chosen, and kept", func() bool {
		return times.Load() > 0 && contentsOn(t, h, "a", all) == "i" && h.index.Usage("a").Going == 0 && h.Owed()["a"].None()
	})
	end()
	placedSoon(t, done, "once nobody reads it")
}

// Two full workers that have the same replica do not both give it up.
func TestLastOfTwoReplicasStays(t *testing.T) {
	t.Parallel()
	cfg := testConfig("a", "b")
	cfg.Workers[0].Limits.Volumes, cfg.Workers[1].Limits.Volumes = 1, 1
	h := openConfig(t, cfg, Options{Blobs: nowhere, Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "a", "b")}})
	all := dirs(t, h, "i")
	replicateAll(t, h, all, "a", "b")
	done := make(chan error, 2)
	for _, w := range []string{"a", "b"} {
		go func() {
			_, err := h.Container(t.Context(), "on-"+w, ContainerRequest{Exclude: map[string]string{map[string]string{"a": "b", "b": "a"}[w]: "by the test"}, Outputs: []Output{{Name: "o", Path: "o"}}})
			done <- err
		}()
	}
	placedSoon(t, done, "one of them")
	testkit.Until(t, "one waits", func() bool { return len(h.queue.Waiting()) == 1 })
	waitsInVain(t, h, h.queue.Waiting()[0].Owner)
	if left := contentsOn(t, h, "a", all) + contentsOn(t, h, "b", all); left != "i" {
		t.Errorf("%q are left", left)
	}
}

// A cache can be made again.
func TestCachesMakeRoom(t *testing.T) {
	t.Parallel()
	h, _ := fullWorker(t, 3, Options{}, nil)
	only := map[string]string{"b": "by the test"}
	c, err := h.Container(t.Context(), "first", ContainerRequest{Caches: []Cache{{Key: "k", Path: "c"}}, Exclude: only})
	if err == nil {
		err = c.SaveCaches(t.Context())
	}
	if err == nil {
		_, err = c.Seal(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := h.volumes(t.Context(), store.VolumeFilter{Worker: "a"}); err != nil || len(rows) != 1 {
		t.Fatalf("the cache alone is to be there: %+v, %v", rows, err)
	}
	placedSoon(t, askFor(t, h, "second", 3), "a container that needs the room of a cache")
}

// What the host's disk has can be had again.
func TestUploadedReplicaIsSpare(t *testing.T) {
	t.Parallel()
	h, _ := fullWorker(t, 3, Options{}, nil)
	a, err := h.UploadDir(t.Context(), Upload{Name: "up"}, tree(t, map[string]string{"f": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	all := []*Artifact{a}
	replicateAll(t, h, all, "a")
	placedSoon(t, askFor(t, h, "first", 3), "in its place")
	if left := contentsOn(t, h, "a", all); left != "" {
		t.Errorf("on a there are %q", left)
	}
	replicateAll(t, h, all, "b")
}

// A replica on a worker that is away, is emptied, or comes and goes makes none elsewhere spare, until that is over.
func TestLessSureReplicaDoesNotCount(t *testing.T) {
	t.Parallel()
	b, away := pluggable(newMemory(t, "b"))
	cfg := testConfig("a")
	cfg.Plugins = append(cfg.Plugins, config.Plugin{Name: "other", Command: "slipway-memory"})
	cfg.Workers = append(cfg.Workers, config.Worker{Name: "b", Plugin: "other"}, config.Worker{Name: "node", Plugin: "nodes", Ephemeral: true})
	cfg.Plugins = append(cfg.Plugins, config.Plugin{Name: "nodes", Command: "slipway-memory"})
	cfg.Workers[0].Limits.Volumes = 1
	h := openConfig(t, cfg, Options{Blobs: nowhere, Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "a"), "other": b, "nodes": newMemory(t, "node")}})
	all := dirs(t, h, "i")
	replicateAll(t, h, all, "a", "b", "node")
	plug := func(in bool) {
		t.Helper()
		away.Store(!in)
		w := mustWorker(t, h, "b")
		w.lookNow()
		testkit.Until(t, "it is known how b is", func() bool { return w.report().Up == in })
	}
	plug(false)
	req := ContainerRequest{Outputs: []Output{{Name: "o", Path: "o"}}, Exclude: map[string]string{"b": "by the test", "node": "by the test"}}
	ended := make(chan error, 1)
	go func() {
		_, err := h.Container(t.Context(), "waits", req)
		ended <- err
	}()
	waitsInVain(t, h, "waits")
	if err := h.LandWorker(t.Context(), "b", "by the test"); err != nil {
		t.Fatal(err)
	}
	plug(true)
	waitsInVain(t, h, "waits")
	if err := h.UncordonWorker(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	placedSoon(t, ended, "once b keeps what it has")
}

// While room is being made, explain says so, and nothing else goes for it; what a worker does not destroy is no room, and then another goes.
func TestRoomIsTold(t *testing.T) {
	t.Parallel()
	let := make(chan struct{})
	var first atomic.Value
	var free atomic.Bool
	h, _ := fullWorker(t, 2, Options{}, func(o *hooked) {
		o.hook = func(_ context.Context, call, id string, _ int, real func() error) error {
			if call == "destroy-volume" && (first.CompareAndSwap(nil, id) || first.Load() == id) && !free.Load() {
				<-let
				return errors.New("device or resource busy")
			}
			return real()
		}
	})
	all := dirs(t, h, "i", "j")
	replicateAll(t, h, all, "a", "b")
	done := askFor(t, h, "waits", 1)
	const told = "2 of 2 volumes, of which 0 are claimed; 1 volume wanted; room is being made: 1 is being destroyed; held by artifact j (1 volume), what is being destroyed (1 volume)"
	testkit.Until(t, "room is being made", func() bool {
		e, err := h.ExplainOwner(t.Context(), "waits")
		return err == nil && e.State == PlacementWaiting && fullOf(e.Err, told)
	})
	waitsInVain(t, h, "waits")
	if left := contentsOn(t, h, "a", all); left != "j" {
		t.Errorf("beside the one that goes: %q", left)
	}
	close(let)
	placedSoon(t, done, "once another has gone")
	if left := contentsOn(t, h, "a", all); left != "" || volumesOn(t, h.opts.Runtimes["memory"], "a") != 2 {
		t.Errorf("beside the one that does not go: %q", left)
	}
	free.Store(true)
}
