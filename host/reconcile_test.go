package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// manyInputs is a job with one step that has so many inputs, and what it runs with.
func manyInputs(t testing.TB, n int) RunRequest {
	var text strings.Builder
	req := RunRequest{Inputs: make(map[string]string)}
	dir := tree(t, map[string]string{"a": "x"})
	text.WriteString("job \"j\" {\n")
	for i := range n {
		fmt.Fprintf(&text, "  input \"i%d\" {}\n", i)
		req.Inputs[fmt.Sprintf("i%d", i)] = dir
	}
	text.WriteString("  step \"s\" {\n    inputs = {\n")
	for i := range n {
		fmt.Fprintf(&text, "      i%d = input.i%d\n", i, i)
	}
	text.WriteString("    }\n    run {\n      path = \"true\"\n    }\n  }\n}\n")
	req.Job = parseJob(t, text.String())
	return req
}

// TestDestroyedSideBySide: what a step had is destroyed at once, not one thing after another: each call waits until as many are under way as
// there are copies, and the run ends.
func TestDestroyedSideBySide(t *testing.T) {
	t.Parallel()
	const inputs = 12
	rt := newMemory(t, "m")
	var here atomic.Int32
	all := make(chan struct{})
	o := &hooked{Runtime: rt, hook: func(ctx context.Context, call, _ string, _ int, real func() error) error {
		if call != "destroy-volume" {
			return real()
		}
		if here.Add(1) == inputs {
			close(all)
		}
		select {
		case <-all:
			return real()
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	h := openHost(t, o, Options{}, "m")
	res, err := h.Run(testkit.Context(t), manyInputs(t, inputs))
	if err != nil || !res.Succeeded() {
		t.Fatalf("%s: %v", states(res), err)
	}
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if here.Load() != 2*inputs { // a copy and an original each
		t.Errorf("%d calls, want %d", here.Load(), 2*inputs)
	}
}

// TestRefusedDestroyLosesNoOutput: a worker that cannot destroy the container of a step that has ended well, for a while, does not cost its output.
func TestRefusedDestroyLosesNoOutput(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	o := &hooked{Runtime: rt, on: map[string]func(int, func() error) error{"destroy": func(n int, real func() error) error {
		if n <= 3 {
			return sdk.NewInternal(nil, "device or resource busy")
		}
		return real()
	}}}
	h := openHost(t, o, Options{}, "m")
	out := filepath.Join(t.TempDir(), "out")
	job := strings.ReplaceAll(outputJob, "exit 3", "exit 0")
	res, err := h.Run(testkit.Context(t), RunRequest{Job: parseJob(t, job), Outputs: map[string]string{"o": out}})
	if err != nil || !res.Succeeded() {
		t.Fatalf("%s: %v", states(res), err)
	}
	if b, err := os.ReadFile(filepath.Join(out, "f")); err != nil || string(b) != "made\n" {
		t.Errorf("the output: %q, %v", b, err)
	}
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestSlowDestroyMakesRoom: as many containers as go at a time are in calls that never answer: others go nonetheless.
func TestSlowDestroyMakesRoom(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	var hangs sync.Map
	o := &hooked{Runtime: rt, hook: func(ctx context.Context, call, id string, _ int, real func() error) error {
		if _, hang := hangs.Load(id); hang && call == "destroy" {
			<-ctx.Done()
			return ctx.Err()
		}
		return real()
	}}
	h := openHost(t, o, Options{slowTry: time.Millisecond}, "m")
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	var callers sync.WaitGroup
	defer callers.Wait()
	defer giveUp()
	for i := range atOnce + 1 {
		c, err := h.Container(t.Context(), fmt.Sprintf("owner/%d", i), ContainerRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if i == atOnce {
			testkit.Until(t, "all others hang", func() bool { return o.calls("destroy") == i })
			if err := c.Destroy(testkit.Context(t)); err != nil {
				t.Error(err)
			}
			continue
		}
		hangs.Store(string(c.id), true)
		callers.Go(func() {
			if err := c.Destroy(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("a destruction that hangs ended with %v", err)
			}
		})
	}
}

// TestOwedIsTold: what a worker will not destroy is told with the reason and since when, to whoever waits for it too, until it has worked.
func TestOwedIsTold(t *testing.T) {
	t.Parallel()
	for refused, containers := range map[string]int{"destroy": 1, "destroy-volume": 0} {
		t.Run(refused, func(t *testing.T) {
			t.Parallel()
			rt, dir := newMemory(t, "m"), t.TempDir()
			var stuck atomic.Bool
			stuck.Store(true)
			o := &hooked{Runtime: rt, hook: func(_ context.Context, call, _ string, _ int, real func() error) error {
				if call == refused && stuck.Load() {
					return sdk.NewInternal(nil, "device or resource busy")
				}
				return real()
			}}
			h := openHost(t, o, Options{StateDir: dir}, "m")
			began := time.Now()
			c, err := h.Container(t.Context(), "owner", ContainerRequest{Outputs: []Output{{"o", "o"}}})
			if err != nil {
				t.Fatal(err)
			}
			if o := h.Workers()[0].Owed; !o.None() || !o.Since.IsZero() {
				t.Errorf("before: %+v", o)
			}
			if err := c.Destroy(t.Context()); !errors.Is(err, sdk.Internal) {
				t.Fatalf("it ended with %v", err)
			}
			check := func(h *Host) time.Time {
				t.Helper()
				left := h.AwaitOwed(testkit.Context(t))["m"]
				for _, o := range []Owed{left, h.Workers()[0].Owed} {
					if o.Containers != containers || o.Volumes != 1 || !strings.Contains(o.Why, "device or resource busy") || o.Since.Before(began) || o.Since.After(time.Now()) {
						t.Errorf("%+v", o)
					}
				}
				return left.Since
			}
			since := check(h)
			if err := c.Destroy(t.Context()); !errors.Is(err, sdk.Internal) { // asked for again, it is owed for as long
				t.Fatalf("it ended with %v", err)
			}
			closeTestHost(t, h)
			h = openHost(t, o, Options{StateDir: dir}, "m")
			if again := check(h); !again.Equal(since) {
				t.Errorf("owed since %v, and after the host has opened again since %v", since, again)
			}
			stuck.Store(false)
			destroyed(t, h, rt)
			if left := h.AwaitOwed(t.Context()); len(left) > 0 || !h.Workers()[0].Owed.None() {
				t.Errorf("after: %v", left)
			}
		})
	}
}

// TestFailureIsTold: of several things whoever waits for them is told what could not be destroyed, however early that was known.
func TestFailureIsTold(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var late atomic.Pointer[string]
	o := &hooked{Runtime: newMemory(t, "m")}
	o.hook = func(ctx context.Context, call, id string, _ int, real func() error) error {
		if call != "destroy" {
			return real()
		}
		if hangs := late.Load(); hangs != nil {
			if id != *hangs {
				return sdk.NewInternal(nil, "device or resource busy")
			}
			<-release
		}
		return real()
	}
	h := openHost(t, o, Options{}, "m")
	var all []reap.Thing
	for _, owner := range []string{"hangs", "fails"} {
		c, err := h.Container(t.Context(), owner, ContainerRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if owner == "hangs" {
			late.Store(new(string(c.id)))
		}
		if _, err := h.noteDoomed(t.Context(), string(c.id), doom{}); err != nil {
			t.Fatal(err)
		}
		all = append(all, containerThing(string(c.id)))
	}
	testkit.Until(t, "one has failed", func() bool {
		left, _ := h.reconciler("m").left(all)
		return len(left.failed) == 1
	})
	ctx := &askedContext{Context: t.Context(), asked: make(chan struct{}, 100)}
	ended := make(chan error)
	go func() { ended <- h.awaitGone(ctx, "m", destroyPatience, all...) }()
	<-ctx.asked // it looks
	<-ctx.asked // and has looked: the failed one is tried again, which it hears of
	close(release)
	if err := <-ended; !errors.Is(err, sdk.Internal) {
		t.Errorf("it ended with %v", err)
	}
}

// askedContext tells whenever somebody asks whether it has ended.
type askedContext struct {
	context.Context
	asked chan struct{}
}

func (c *askedContext) Err() error {
	select {
	case c.asked <- struct{}{}:
	default:
	}
	return c.Context.Err()
}

// TestAwaitOwedWhileAway: nobody waits long for a worker that is away.
func TestAwaitOwedWhileAway(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	var away atomic.Bool
	o := &hooked{Runtime: rt, hook: func(_ context.Context, call, _ string, _ int, real func() error) error {
		if away.Load() {
			return errAway
		}
		return real()
	}, status: func(context.Context, int, *sdk.Status) error {
		if away.Load() {
			return errAway
		}
		return nil
	}}
	h := openHost(t, o, Options{}, "m")
	c, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	away.Store(true)
	if _, gone := errors.AsType[*WorkerGoneError](c.Destroy(testkit.Context(t))); !gone {
		t.Error("it is not said that the worker is away")
	}
	if left := h.AwaitOwed(testkit.Context(t)); left["m"].Containers != 1 {
		t.Errorf("%v", left)
	}
	away.Store(false)
	destroyed(t, h, rt)
}

// TestOnlyWhatIsOwedIsDestroyed: the reconciler reads the row before it calls the worker: what is in use is never destroyed, whoever asked for it.
func TestOnlyWhatIsOwedIsDestroyed(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	o := &hooked{Runtime: rt}
	h := openHost(t, o, Options{}, "m")
	a := uploaded(t, h, "kept")
	c, err := h.Container(t.Context(), "owner", ContainerRequest{Inputs: []Input{{a, "i"}}})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := h.volumes(t.Context(), store.VolumeFilter{})
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v, %v", rows, err)
	}
	for _, thing := range append(things(rows), containerThing(string(c.id))) {
		if err := h.destroyUnknown(t.Context(), "m", thing); err != nil {
			t.Errorf("%v: %v", thing, err)
		}
	}
	if n := o.calls("destroy") + o.calls("destroy-volume"); n > 0 || stateOf(t, h, "owner") != lifecycle.ContainerReady {
		t.Errorf("%d things were destroyed", n)
	}
}

// BenchmarkTeardown measures the end of a step with 40 inputs on a worker that takes 20 ms for each call, from its exit to the end of its run: "ms", and
// "x-call" as often as one call takes. One after another it would be 81 calls.
func BenchmarkTeardown(b *testing.B) {
	const call = 20 * time.Millisecond
	o := &hooked{Runtime: newMemory(b, "m"), hook: func(_ context.Context, _, _ string, _ int, real func() error) error {
		time.Sleep(call) // what is measured is how many of them go side by side
		return real()
	}}
	h := openHost(b, o, Options{}, "m")
	req := manyInputs(b, 40)
	var took time.Duration
	for b.Loop() {
		var exited time.Time
		req.Events = func(e Event) {
			if e.Kind == EventExited {
				exited = e.Time
			}
		}
		res, err := h.Run(b.Context(), req)
		if err != nil || !res.Succeeded() {
			b.Fatalf("%s: %v", states(res), err)
		}
		took += time.Since(exited)
	}
	b.ReportMetric(float64(took.Microseconds())/1000/float64(b.N), "ms")
	b.ReportMetric(float64(took)/float64(call)/float64(b.N), "x-call")
}

// TestDescribe: what is waited for is told in the same words whatever order it came in.
func TestDescribe(t *testing.T) {
	c, v, u := reap.Thing{Kind: reap.Container, ID: "c"}, reap.Thing{Kind: reap.Volume, ID: "v"}, reap.Thing{Kind: reap.Volume, ID: "u"}
	things := []reap.Thing{v, c, u}
	if got := describe(things); got != "container c, volume u, volume v" {
		t.Errorf("%q", got)
	}
	if things[0] != v {
		t.Errorf("the caller's order became %v", things)
	}
}

// TestHeldByTwo: what two keep from being destroyed is not destroyed when one of them lets it go.
func TestHeldByTwo(t *testing.T) {
	t.Parallel()
	o := &hooked{Runtime: newMemory(t, "m")}
	h := openHost(t, o, Options{}, "m")
	c, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	r, thing := h.reconciler("m"), containerThing(string(c.id))
	one, other := r.hold(thing), r.hold(thing)
	if _, err := h.noteDoomed(t.Context(), string(c.id), doom{}); err != nil {
		t.Fatal(err)
	}
	one()
	r.mu.Lock()
	held := r.held[thing]
	r.mu.Unlock()
	if held != 1 {
		t.Errorf("it is held %d times", held)
	}
	other()
	if err := h.awaitGone(testkit.Context(t), "m", destroyPatience, thing); err != nil {
		t.Error(err)
	}
}
