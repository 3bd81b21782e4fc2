package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// reborn is a memory with the worker m, which comes back as another one: with new incarnations, and nothing of what it had.
type reborn struct {
	*hooked
	h     *Host
	again atomic.Int32        // how often it has come back
	calls *semaphore.Weighted // held by each call, and by nobody else from when it has nothing until the host knows. Not a mutex: in a bubble, time stands still while one is waited for
}

// manyCalls is more than there are at once.
const manyCalls = 1 << 20

func newReborn(t testing.TB, opts Options) *reborn {
	r := &reborn{hooked: &hooked{Runtime: newMemory(t, "m"), on: make(map[string]func(int, func() error) error)}, calls: semaphore.NewWeighted(manyCalls)}
	r.status = func(_ context.Context, _ int, s *sdk.Status) error {
		if n := r.again.Load(); n > 0 {
			reborn := fmt.Sprintf("-reborn-%d", n)
			s.ContainerIncarnation, s.VolumeIncarnation = s.ContainerIncarnation+reborn, s.VolumeIncarnation+reborn
		}
		return nil
	}
	r.hook = func(ctx context.Context, call, _ string, _ int, real func() error) error {
		if call != "follow" {
			if err := r.calls.Acquire(context.WithoutCancel(ctx), 1); err != nil {
				return err
			}
			defer r.calls.Release(1)
		}
		return real()
	}
	r.h = openHost(t, r, opts, "m")
	return r
}

// comeBack returns once the host has seen the new incarnation.
func (r *reborn) comeBack(t testing.TB) {
	ctx := testkit.Context(t)
	w, err := r.h.worker("m")
	if err != nil {
		t.Error(err)
		return
	}
	// The first look that succeeds settles what an earlier host began: its calls would wait for the lock below, which waits for the next look.
	if _, err := w.acquirePatiently(ctx); err != nil {
		t.Error(err)
		return
	}
	if err := r.calls.Acquire(ctx, manyCalls); err != nil {
		t.Error(err)
		return
	}
	defer r.calls.Release(manyCalls)
	conn, err := r.Runtime.Worker("m")
	if err != nil {
		t.Error(err)
		return
	}
	var containers []sdk.ContainerID
	var volumes []sdk.VolumeID
	err = errors.Join(
		conn.ListContainers(ctx, sdk.Filter{}, func(i sdk.ContainerInfo) error { containers = append(containers, i.ID); return nil }),
		conn.ListVolumes(ctx, sdk.Filter{}, func(i sdk.VolumeInfo) error { volumes = append(volumes, i.ID); return nil }))
	for _, id := range containers {
		err = errors.Join(err, conn.DestroyContainer(ctx, id))
	}
	for _, id := range volumes {
		err = errors.Join(err, conn.DestroyVolume(ctx, id))
	}
	if err != nil {
		t.Error(err)
	}
	before := r.incarnations(t)
	r.again.Add(1)
	w.lookNow()
	testkit.Until(t, "the new incarnation was seen", func() bool { return r.incarnations(t) != before })
}

func (r *reborn) incarnations(t testing.TB) (row store.Worker) {
	if err := r.h.store.View(testkit.Context(t), func(tx *store.Tx) (err error) { row, err = tx.Worker("m"); return err }); err != nil {
		t.Error(err)
	}
	return row
}

// agrees waits until the worker has what the rows say, and nothing else.
func (r *reborn) agrees(t testing.TB) {
	t.Helper()
	conn, err := r.Runtime.Worker("m")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "rows and worker agree", func() bool {
		there := make(map[string]bool)
		if err := conn.ListVolumes(testkit.Context(t), sdk.Filter{}, func(i sdk.VolumeInfo) error { there[string(i.ID)] = true; return nil }); err != nil {
			t.Fatal(err)
		}
		rows, err := r.h.volumes(testkit.Context(t), store.VolumeFilter{})
		if err != nil {
			t.Fatal(err)
		}
		same := len(rows) == len(there)
		for _, row := range rows {
			same = same && there[row.ID]
		}
		return same
	})
}

// A worker that comes back as another one while something is made there, at each moment of that: nothing that it lost comes to life again in the
// store, and the run is made anew or ends with the loss, for ever.
func TestRebornWhileARunIsUnderWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at   string // a fault point, or an event
		want string // states of the steps
		kept bool   // the output is delivered
	}{
		{"claimed", "s=succeeded", true},
		{"volume-intent", "s=succeeded", true},
		{"volume-made", "s=succeeded", true},
		{"container-intent", "s=succeeded", true},
		{"container-made", "s=succeeded", true},
		{"started", "s=lost", false},
		{"destroyed", "s=lost", false},
		{"output-sealed", "s=lost", false},
		{"output-registered", "s=succeeded", false},
		{"finished", "s=succeeded", false},
	} {
		t.Run(c.at, func(t *testing.T) {
			t.Parallel()
			var r *reborn
			var reached atomic.Bool
			back := make(chan struct{}) // in a goroutine of the host's, where the run may end first
			r = newReborn(t, Options{fault: func(at string) {
				if at == c.at && reached.CompareAndSwap(false, true) {
					defer close(back)
					r.comeBack(t)
				}
			}})
			target := filepath.Join(t.TempDir(), "out")
			req := RunRequest{ID: "r", Job: parseJob(t, copyJob), Inputs: map[string]string{"text": tree(t, map[string]string{"a": "x"})},
				Outputs: map[string]string{"o": target}}
			req.Events = func(e Event) {
				if e.Kind == EventFinished && c.at == "finished" && reached.CompareAndSwap(false, true) {
					defer close(back)
					r.comeBack(t)
				}
			}
			res, err := r.h.Run(testkit.Context(t), req)
			if !reached.Load() {
				t.Fatal("not reached")
			}
			<-back
			if res == nil || states(res) != c.want {
				t.Fatalf("%v: %v, want %s", states(res), err, c.want)
			}
			if lost := sdk.IsNotFound(err, KindArtifact); c.kept && err != nil || lost != (c.want == "s=succeeded" && !c.kept) {
				t.Errorf("the run's error: %v", err)
			}
			if _, there := res.Outputs["o"]; there != c.kept {
				t.Errorf("delivered: %v", res.Outputs)
			}
			req.Events = nil
			again, err := r.h.Run(testkit.Context(t), req)
			if again == nil || !again.Recorded || states(again) != c.want {
				t.Errorf("asked for again: %v: %v", again, err)
			}
			r.agrees(t)
			if left := onWorker(t, r.Runtime, "m"); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// A container that was lost stays so, whoever destroys it then.
func TestLostStaysLost(t *testing.T) {
	t.Parallel()
	r := newReborn(t, Options{})
	c, err := r.h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	r.comeBack(t)
	if err := c.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if row := containerRows(t, r.h)[0]; row.State != lifecycle.ContainerLost {
		t.Errorf("it is %s", row.State)
	}
	var lost *LostError
	if out := waitOutcome(t, p); !errors.As(out.Err, &lost) || !strings.Contains(lost.Reason, "new incarnation") {
		t.Errorf("outcome %+v", out)
	}
}

// What a worker took with it that nobody owned any more leaves no record.
func TestNobodysContainerIsForgotten(t *testing.T) {
	t.Parallel()
	r := newReborn(t, Options{})
	r.on["create"] = func(int, func() error) error { return sdk.NewInvalid(sdk.ReasonSpec, "no") }
	r.on["destroy"] = func(int, func() error) error { return errAway }
	if _, err := r.h.Container(t.Context(), "owner", ContainerRequest{}); !errors.Is(err, sdk.Invalid) {
		t.Fatal(err)
	}
	if row := containerRows(t, r.h)[0]; row.State != lifecycle.ContainerDestroying || row.Owner != "" {
		t.Fatalf("%+v", row)
	}
	r.comeBack(t)
	if rows := containerRows(t, r.h); len(rows) > 0 {
		t.Errorf("left: %+v", rows)
	}
}

// What placement is told of rows is what was stored.
func TestIndexFollowsTheStore(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	if _, err := h.Container(t.Context(), "owner", ContainerRequest{}); err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	for _, result := range []error{full, nil} {
		err := h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error {
			return errors.Join(h.loseContainers(tx, "m", "for the test"), result)
		})
		if !errors.Is(err, result) {
			t.Fatal(err)
		}
		if _, held := h.index.Held("owner"); held != (result != nil) {
			t.Errorf("a transaction that ended with %v: lease held: %v", result, held)
		}
	}
}

// A worker that says for a moment that it does not know a volume does not make the host destroy what others are made of.
func TestParentOfALivingCloneStays(t *testing.T) {
	t.Parallel()
	o := &hooked{Runtime: newMemory(t, "m")}
	var lie atomic.Bool
	o.hook = func(_ context.Context, call, id string, n int, real func() error) error {
		if call == "create-volume" && lie.CompareAndSwap(true, false) {
			return sdk.NewNotFound(sdk.KindVolume, "its parent")
		}
		return real()
	}
	h := openHost(t, o, Options{}, "m")
	a, err := h.AddDir(t.Context(), "text", "", tree(t, map[string]string{"a": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Container(t.Context(), "one", ContainerRequest{Inputs: []Input{{a, "text"}}}); err != nil {
		t.Fatal(err)
	}
	lie.Store(true)
	if _, err := h.Container(t.Context(), "two", ContainerRequest{Inputs: []Input{{a, "text"}}}); err != nil {
		t.Fatal(err)
	}
	replicas, err := h.volumes(t.Context(), store.VolumeFilter{Artifact: a.ID})
	if err != nil || len(replicas) != 1 || replicas[0].State != lifecycle.VolumeSealed {
		t.Fatalf("%+v %v", replicas, err)
	}
	if n := o.calls("destroy-volume"); n > 1 { // what could not be made
		t.Errorf("%d volumes were destroyed", n)
	}
}
