package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// limitedHost opens a host whose workers have a limit of volumes.
func limitedHost(t testing.TB, rt sdk.Runtime, opts Options, limit int, workers ...string) *Host {
	t.Helper()
	cfg := testConfig(workers...)
	for i := range cfg.Workers {
		cfg.Workers[i].Limits.Volumes = limit
	}
	opts.Runtimes = map[string]sdk.Runtime{"memory": rt}
	return openConfig(t, cfg, opts)
}

// dirs are artifacts of directories of this machine.
func dirs(t testing.TB, h *Host, names ...string) (out []*Artifact) {
	t.Helper()
	for _, name := range names {
		a, err := h.AddDir(t.Context(), name, "test", tree(t, map[string]string{"f": name}))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}

// wants is a request with inputs, which does not wait for a place.
func wants(inputs ...*Artifact) ContainerRequest {
	r := ContainerRequest{WaitLimit: -1}
	for _, a := range inputs {
		r.Inputs = append(r.Inputs, Input{Artifact: a, Path: a.Name})
	}
	return r
}

// volumesOn counts the volumes that a worker lists.
func volumesOn(t testing.TB, rt sdk.Runtime, worker string) (n int) {
	t.Helper()
	conn, err := rt.Worker(worker)
	if err == nil {
		err = conn.ListVolumes(t.Context(), sdk.Filter{}, func(sdk.VolumeInfo) error { n++; return nil })
	}
	if err != nil {
		t.Error(err)
	}
	return n
}

// fullOf tells whether an error says that a worker has no room for volumes, in these words.
func fullOf(err error, detail string) bool {
	full, ok := errors.AsType[*pool.FullError](err)
	return ok && slices.ContainsFunc(full.Reasons, func(v pool.Verdict) bool { return v.Reason == pool.FullVolumes && v.Detail == detail })
}

// Two hundred requests at once, with inputs that their workers lack and streams that fail, never make a worker list more volumes than its limit;
// all of them are served, and nothing stays claimed.
func TestVolumesOfTwoHundred(t *testing.T) {
	t.Parallel()
	const limit = 7
	rt := newMemory(t, "a", "b")
	o := &hooked{Runtime: rt}
	most := map[string]*atomic.Int64{"a": {}, "b": {}}
	o.on = map[string]func(int, func() error) error{
		"create-volume": func(_ int, real func() error) error {
			err := real()
			for w, most := range most {
				n := int64(volumesOn(t, rt, w))
				for had := most.Load(); n > had && !most.CompareAndSwap(had, n); had = most.Load() {
				}
			}
			return err
		},
		"stream-in": func(n int, real func() error) error {
			if n%3 == 1 {
				return sdk.NewUnavailable(nil, "broken off")
			}
			return real()
		},
	}
	h := limitedHost(t, o, Options{}, limit, "a", "b")
	in := dirs(t, h, "i", "j", "k", "l", "m")
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			req := wants(in[i%len(in)])
			req.WaitLimit, req.Outputs = 0, []Output{{Name: "o", Path: "o"}}
			c, err := h.Container(t.Context(), fmt.Sprint("owner-", i), req)
			if err != nil {
				t.Error(err)
				return
			}
			if err := c.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, w := range []string{"a", "b"} {
		if n := most[w].Load(); n > limit {
			t.Errorf("%s had %d volumes, %d are allowed", w, n, limit)
		}
		testkit.Until(t, "what was given up to make room is gone", func() bool { return h.index.Usage(w).Going == 0 })
		there := volumesOn(t, rt, w)
		if u := h.index.Usage(w); u != (pool.Usage{Contents: there, Volumes: there}) {
			t.Errorf("%s has %d volumes, and this is left: %+v", w, there, u)
		}
	}
}

// What has to be brought to a worker for a container counts with its own volumes, each content once, and what is there or on its way already
// is not counted again.
func TestReplicasAreClaimed(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	streams, let := make(chan struct{}, 10), make(chan struct{})
	o := &hooked{Runtime: rt, on: map[string]func(int, func() error) error{"stream-in": func(_ int, real func() error) error {
		streams <- struct{}{}
		<-let
		return real()
	}}}
	h := limitedHost(t, o, Options{}, 4, "m")
	in := dirs(t, h, "i", "j", "k", "l")
	if _, err := h.Container(t.Context(), "never", wants(in...)); err == nil || !strings.Contains(err.Error(), "8 volumes (4 of its own, 4 for its inputs) wanted, 4 allowed") {
		t.Errorf("more than there is ever room for: %v", err)
	}
	made := make(chan error, 2)
	ask := func(owner string, a *Artifact) {
		go func() {
			_, err := h.Container(t.Context(), owner, wants(a))
			made <- err
		}()
	}
	ask("first", in[0]) // a replica, and a copy of it
	<-streams
	if _, err := h.Container(t.Context(), "both", wants(in[0], in[1])); !fullOf(err, "2 of 4 volumes, of which 1 are claimed; 3 volumes (2 of its own, 1 for its inputs) wanted") {
		t.Errorf("a second input that is not there: %v", err)
	}
	ask("second", in[0]) // a copy of the same replica
	testkit.Until(t, "the second has its place", func() bool { return h.index.Usage("m").Build == 2 })
	if _, err := h.Container(t.Context(), "other", wants(in[1])); !fullOf(err, "3 of 4 volumes, of which 2 are claimed; 2 volumes (1 of its own, 1 for its inputs) wanted") {
		t.Errorf("another input: %v", err)
	}
	e, err := h.ExplainRequest(t.Context(), wants(in[1]))
	if err != nil || !fullOf(e.Err, "3 of 4 volumes, of which 2 are claimed; 2 volumes (1 of its own, 1 for its inputs) wanted") {
		t.Errorf("explained: %+v, %v", e, err)
	}
	close(let)
	for range 2 {
		if err := <-made; err != nil {
			t.Fatal(err)
		}
	}
	if u := h.index.Usage("m"); u != (pool.Usage{Build: 2, Contents: 1, Volumes: 3}) || volumesOn(t, rt, "m") != 3 {
		t.Errorf("once they are made: %+v", u)
	}
	if _, err := h.Container(t.Context(), "third", wants(in[0])); err != nil {
		t.Errorf("the last one: %v", err)
	}
	if _, err := h.Container(t.Context(), "fourth", wants(in[0])); !fullOf(err, "4 of 4 volumes, of which 0 are claimed; 1 volume wanted") {
		t.Errorf("one more: %v", err)
	}
}

// What was claimed and is not needed is free again once the container is there, or cannot be made; what is there still, though it is to be
// destroyed, is not.
func TestClaimsAreGivenBack(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	var broken, stays atomic.Bool
	o := &hooked{Runtime: rt, on: map[string]func(int, func() error) error{
		"stream-in": func(_ int, real func() error) error {
			if broken.Load() {
				return sdk.NewInvalid(sdk.ReasonSpec, "it does not want this")
			}
			return real()
		},
		"destroy-volume": func(_ int, real func() error) error {
			if stays.Load() {
				return errors.New("device or resource busy")
			}
			return real()
		}}}
	dir := t.TempDir()
	h := limitedHost(t, o, Options{StateDir: dir}, 4, "m")
	in := dirs(t, h, "i", "j")
	c, err := h.Container(t.Context(), "saves", ContainerRequest{Caches: []Cache{{Key: "k", Path: "c"}}})
	if err == nil {
		err = c.SaveCaches(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if u := h.index.Usage("m"); u != (pool.Usage{Contents: 1, Volumes: 1}) {
		t.Errorf("a saved cache: %+v", u)
	}
	broken.Store(true)
	if _, err := h.Container(t.Context(), "fails", wants(in[0])); !errors.Is(err, sdk.Invalid) {
		t.Errorf("a container whose input its worker does not want: %v", err)
	}
	if u := h.index.Usage("m"); u != (pool.Usage{Contents: 1, Volumes: 1}) {
		t.Errorf("after a failure: %+v", u)
	}
	broken.Store(false)
	c, err = h.Container(t.Context(), "one", wants(in[0]))
	if err != nil {
		t.Fatal(err)
	}
	stays.Store(true)
	if err := c.Destroy(t.Context()); err == nil {
		t.Error("it was destroyed")
	}
	for range 2 { // with the host that gave the claims, and with one that finds what is there
		if u := h.index.Usage("m"); u != (pool.Usage{Contents: 2, Volumes: 3, Going: 1}) || volumesOn(t, rt, "m") != 3 {
			t.Errorf("a volume that the worker does not destroy: %+v", u)
		}
		e, err := h.ExplainRequest(t.Context(), wants(dirs(t, h, "j")[0]))
		if want := "3 of 4 volumes, of which 0 are claimed; 2 volumes (1 of its own, 1 for its inputs) wanted; room is being made: 1 is being destroyed"; err != nil || !fullOf(e.Err, want) {
			t.Errorf("explained: %v, %v", e.Err, err)
		}
		closeTestHost(t, h)
		h = limitedHost(t, o, Options{StateDir: dir}, 4, "m")
		testkit.Until(t, "the worker is known", func() bool { return h.Workers()[0].Up })
	}
	stays.Store(false)
	testkit.Until(t, "it is destroyed", func() bool { return volumesOn(t, rt, "m") == 2 })
	if _, err = h.Container(t.Context(), "two", ContainerRequest{Outputs: []Output{{Name: "o", Path: "o"}}}); err != nil {
		t.Error(err)
	}
}

// A cache that cannot be had claims nothing once the container has begun without it.
func TestUnusedClaimIsGivenBack(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "a", "b")
	o := &hooked{Runtime: rt, hook: func(_ context.Context, call, _ string, _ int, real func() error) error {
		if call == "stream-in" {
			return sdk.NewInvalid(sdk.ReasonSpec, "it does not want this")
		}
		return real()
	}}
	h := limitedHost(t, o, Options{}, 2, "a", "b")
	on := func(but string) ContainerRequest {
		return ContainerRequest{Caches: []Cache{{Key: "k", Path: "c"}}, Exclude: map[string]string{but: "by the test"}, WaitLimit: -1}
	}
	c, err := h.Container(t.Context(), "saves", on("b"))
	if err == nil {
		err = c.SaveCaches(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err = h.Container(t.Context(), "uses", on("a")); err != nil {
		t.Fatal(err)
	}
	if u := h.index.Usage("b"); u != (pool.Usage{Build: 1, Volumes: 1}) {
		t.Errorf("beside an empty cache: %+v", u)
	}
}

// The placement block's limit holds back, as to replicas too, those kinds of work whose chain names its strategy.
func TestVolumesOfChains(t *testing.T) {
	t.Parallel()
	cfg := testConfig("m")
	cfg.Placement = config.Placement{Build: []string{"limit-active-volumes"}, Check: []string{"random"}, Limits: config.Limits{Volumes: 3}}
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "m")}})
	in := dirs(t, h, "i", "j")
	if _, err := h.Container(t.Context(), "build", wants(in[0])); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Container(t.Context(), "another", wants(in[1])); !fullOf(err, "2 of 3 volumes, of which 0 are claimed; 2 volumes (1 of its own, 1 for its inputs) wanted") {
		t.Errorf("another build: %v", err)
	}
	check := wants(in[1])
	check.Kind = pool.Check
	if _, err := h.Container(t.Context(), "check", check); err != nil {
		t.Errorf("a check: %v", err)
	}
}
