package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// cached runs a script as a step with a cache at "c", and gives what it wrote. Placement is by tag; the exit code must be as expected.
func cached(t *testing.T, h *Host, step, tag, text string, code int) string {
	t.Helper()
	out, res := runCached(t, t.Context(), h, step, tag, text, func(*Process) {})
	if s := res.Steps[0]; s.Exit == nil || int(s.Exit.Code) != code {
		t.Fatalf("%s: %s", step, s.Summary())
	}
	return out
}

func runCached(t *testing.T, ctx context.Context, h *Host, step, tag, text string, started func(*Process)) (string, *RunResult) {
	t.Helper()
	var p *Process
	res, err := h.Run(ctx, RunRequest{Grace: time.Millisecond, Job: parseJob(t, fmt.Sprintf(`
job "cached" {
  step %q {
    %s
    caches = ["c"]
    run {
      path = "sh"
      args = ["-c", %q]
    }
  }
}`, step, tag, text)), Events: func(e Event) {
		if e.Kind == EventStarted {
			p = e.Process
			started(p)
		}
	}})
	if err != nil || p == nil {
		t.Fatalf("%s: %v, %v", step, states(res), err)
	}
	return output(t, p), res
}

// A step finds what its last success left at a cache's path: a copy of its own. Neither a failure nor an abort changes it, nor does another
// step see it. However often it is written, the older contents do not pile up.
func TestTaskCaches(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	h := openHost(t, rt, Options{}, "m")
	const add = "cat c/n; echo x >> c/n"
	for i := range maxCacheChain + 4 {
		got := cached(t, h, "s", "", "touch c/n; "+add, 0)
		if want := strings.Repeat("x\n", i); got != want {
			t.Fatalf("run %d found %q, want %q", i+1, got, want)
		}
		if i == 2 {
			cached(t, h, "s", "", "echo wrong >> c/n; exit 3", 3)
			ctx, cancel := context.WithCancel(t.Context())
			var abort sync.WaitGroup
			_, res := runCached(t, ctx, h, "s", "", "echo wrong >> c/n; echo written; while true; do sleep 0.01; done", func(p *Process) {
				abort.Go(func() { awaitText(t, p, "written"); cancel() })
			})
			abort.Wait()
			if res.Steps[0].State != StepAborted {
				t.Fatalf("it was to be aborted: %s", res.Steps[0].Summary())
			}
			if got := cached(t, h, "another", "", "ls c", 0); got != "" {
				t.Errorf("another step found %q", got)
			}
		}
	}
	left := onWorker(t, rt, "m")
	if len(left) > maxCacheChain+2 {
		t.Errorf("%d volumes are left of %d runs", len(left), maxCacheChain+4)
	}
	list, err := h.Artifacts(t.Context(), ArtifactFilter{Caches: true})
	if err != nil {
		t.Fatal(err)
	}
	key := TaskCacheKey("", "cached", "s", "c")
	if !slices.ContainsFunc(list, func(a ArtifactReport) bool {
		return a.Key == key && strings.HasPrefix(a.Name, cachePrefix) && a.Bytes > 0
	}) {
		t.Errorf("listed: %+v", list)
	}
	if err := h.expireArtifacts(t.Context(), time.Now().Add(DefaultCacheTTL-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := cached(t, h, "s", "", "wc -l < c/n", 0); strings.TrimSpace(got) != fmt.Sprint(maxCacheChain+4) {
		t.Errorf("before its time: %q", got)
	}
	if err := h.expireArtifacts(t.Context(), time.Now().Add(DefaultCacheTTL+time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := cached(t, h, "s", "", "ls c", 0); got != "" {
		t.Errorf("after its time: %q", got)
	}
	if err := h.expireArtifacts(t.Context(), time.Now().Add(DefaultCacheTTL+time.Hour)); err != nil {
		t.Fatal(err)
	}
	checkEmpty(t, h)
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A cache goes where its step goes. Where it cannot be brought there it begins empty, and the step runs all the same.
func TestCacheElsewhere(t *testing.T) {
	t.Parallel()
	var fail atomic.Bool
	o := &hooked{Runtime: newMemory(t, "a", "b"), on: map[string]func(int, func() error) error{"stream-out": func(_ int, real func() error) error {
		if fail.Load() {
			return sdk.NewInternal(nil, "the disk is damaged")
		}
		return real()
	}}}
	cfg := testConfig("a", "b")
	for i := range cfg.Workers {
		cfg.Workers[i].Tags = []string{cfg.Workers[i].Name}
	}
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
	cached(t, h, "s", `tags = ["a"]`, "echo first > c/n", 0)
	fail.Store(true)
	if got := cached(t, h, "s", `tags = ["b"]`, "ls c; false", 1); got != "" {
		t.Errorf("found %q though it could not be brought", got)
	}
	fail.Store(false)
	if got := cached(t, h, "s", `tags = ["b"]`, "cat c/n", 0); got != "first\n" {
		t.Errorf("found %q on the other worker", got)
	}
}

// Keeping a cache that was stopped half-way is gone on with, and what was kept is kept once.
func TestSaveCachesAgain(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := openHost(t, newMemory(t, "m"), Options{fault: func(at string) {
		if at == "cache-sealed" {
			cancel()
		}
	}}, "m")
	key := TaskCacheKey("team", "a/b", "s", "p")
	if key == TaskCacheKey("team", "a", "b/s", "p") {
		t.Error("two steps have one key")
	}
	c, err := h.Container(t.Context(), "o", ContainerRequest{Caches: []Cache{{Key: key, Path: "c"}}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "echo kept > c/f"}})
	if err != nil {
		t.Fatal(err)
	}
	waitOutcome(t, p)
	if err := c.SaveCaches(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("it was stopped, and says %v", err)
	}
	for range 2 {
		if err := c.SaveCaches(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := h.Artifacts(t.Context(), ArtifactFilter{})
	if err != nil || len(list) != 1 || list[0].Key != key || list[0].Source != "o" {
		t.Fatalf("listed: %+v, %v", list, err)
	}
	if got := fileOf(t, h, &list[0].Artifact, "f"); got != "kept\n" {
		t.Errorf("kept: %q", got)
	}
}

// maker makes contents of a cache, and counts them.
type maker struct {
	h    *Host
	made atomic.Int64
	wait chan struct{} // nil: none
	fail atomic.Bool
}

func (m *maker) make(ctx context.Context) (*Artifact, error) {
	n := m.made.Add(1)
	if m.wait != nil {
		select {
		case <-m.wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if m.fail.Load() {
		return nil, errFarBroken
	}
	return m.h.UploadFiles(ctx, Upload{Name: fmt.Sprintf("content-%d", n), TTL: time.Minute}, stream.File{Name: "n", Data: fmt.Append(nil, n)})
}

// A resource's content is made once for all who want it, registered only when that has worked, found wherever it was brought, made again where
// it is lost or not valid any more, and given to those whose time was before that.
func TestResourceCaches(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "a", "b"), Options{}, "a", "b")
	m := &maker{h: h, wait: make(chan struct{})}
	req := CacheRequest{Key: "repo@1", Source: "a test", Make: m.make}
	get := func(req CacheRequest, want string, made bool) *Artifact {
		t.Helper()
		a, got, err := h.Cached(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if text := fileOf(t, h, a, "n"); text != want || got != made {
			t.Errorf("content %s, made %v; want %s, %v", text, got, want, made)
		}
		return a
	}

	// All leave: what was begun is given up, and nothing is registered.
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			if a, _, err := h.Cached(ctx, req); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, %v", a, err)
			}
		})
	}
	testkit.Until(t, "all wait for it", func() bool {
		h.caching.mu.Lock()
		defer h.caching.mu.Unlock()
		f := h.caching.by[resourceCacheKey("", "repo@1")]
		return f != nil && f.waiting == 3 && m.made.Load() == 1
	})
	cancel()
	callers.Wait()

	// Many at once: made once.
	var made atomic.Int64
	for range 10 {
		callers.Go(func() {
			a, mine, err := h.Cached(t.Context(), req)
			if err != nil {
				t.Error(err)
				return
			}
			if mine {
				made.Add(1)
			}
			var b bytes.Buffer
			if err := h.ReadFile(t.Context(), a, "n", &b); err != nil || b.String() != "2" {
				t.Errorf("content %s, %v", &b, err)
			}
		})
	}
	testkit.Until(t, "it is being made", func() bool { return m.made.Load() == 2 })
	close(m.wait)
	callers.Wait()
	if m.made.Load() != 2 || made.Load() != 1 {
		t.Errorf("made %d times, and %d callers say that they did", m.made.Load(), made.Load())
	}
	first := get(req, "2", false)

	// A failure is told, and the next one makes it.
	bad := CacheRequest{Key: "repo@2", Make: m.make}
	m.fail.Store(true)
	if a, _, err := h.Cached(t.Context(), bad); !errors.Is(err, errFarBroken) {
		t.Errorf("%v, %v", a, err)
	}
	m.fail.Store(false)
	get(bad, "4", true)
	get(CacheRequest{Key: "repo@2", Team: "other", Make: m.make}, "5", true)

	// It is where it was brought, and outlives what it came from.
	for _, w := range []string{"a", "b"} {
		if _, err := h.replicate(t.Context(), first, mustWorker(t, h, w), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.dropBlob(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	lose := func(worker string) {
		t.Helper()
		rows, err := h.volumes(t.Context(), store.VolumeFilter{Worker: worker, Artifact: first.ID})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%+v, %v", rows, err)
		}
		if err := h.destroyVolume(t.Context(), rows[0]); err != nil {
			t.Fatal(err)
		}
	}
	lose("a")
	get(req, "2", false)
	lose("b")
	get(req, "6", true)

	// What became invalid serves those of an earlier time.
	before := time.Now()
	if err := h.InvalidateCache(t.Context(), "", "repo@1"); err != nil {
		t.Fatal(err)
	}
	old := req
	old.ValidAt = before
	get(old, "6", false)
	get(req, "7", true)
	get(req, "7", false)

	// It is kept for its time after the last use, whoever made it, and then goes.
	if err := h.expireArtifacts(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	get(req, "7", false)
	if err := h.expireArtifacts(t.Context(), time.Now().Add(DefaultCacheTTL+time.Hour)); err != nil {
		t.Fatal(err)
	}
	get(req, "8", true)
	if _, _, err := h.Cached(t.Context(), CacheRequest{Key: "k"}); !errors.Is(err, sdk.Invalid) {
		t.Error(err)
	}
}

// TestRemovedWhileGivenUp: an artifact is removed while a replica of it is given up that somebody uses. The replica does not come back to life without it.
func TestRemovedWhileGivenUp(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	var h *Host
	var a *Artifact
	h = openHost(t, rt, Options{fault: func(at string) {
		if at != "replica-doomed" {
			return
		}
		held := &holds{h: h}
		held.add(a.ID)
		t.Cleanup(held.letGo)
		if _, err := h.giveUpArtifact(t.Context(), a, nil); err != nil {
			t.Error(err)
		}
	}}, "m")
	a, err := h.UploadDir(t.Context(), Upload{Name: "a"}, tree(t, map[string]string{"f": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.replicate(t.Context(), a, mustWorker(t, h, "m"), nil); err != nil {
		t.Fatal(err)
	}
	if err := h.giveUp(t.Context(), replicas(t, h, a)[0]); err != nil {
		t.Fatal(err)
	}
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("left is %q", left)
	}
}
