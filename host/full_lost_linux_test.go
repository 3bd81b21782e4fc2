package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// giveReserve has a full disk's reserve given up for something that is destroyed, and takes a part of it: from then on nothing else is written, however small, until there is
// room. What is left of it would be enough for the reserve again else, and that is made at the first chance.
func giveReserve(t testing.TB, h *Host, dir string) {
	t.Helper()
	for i := 0; ; i++ {
		err := h.store.Release(t.Context(), store.KillSafe, func(tx *store.Tx) error {
			return tx.PutRun(store.Run{ID: fmt.Sprint("y", i), Job: make([]byte, 10_000)})
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "reserve")); errors.Is(err, os.ErrNotExist) {
			if err := os.WriteFile(filepath.Join(dir, "more"), make([]byte, 1<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}

// soon is a test in a bubble whose deadline comes sooner: three hours of a bubble's time are many looks.
type soon struct {
	testing.TB
	end time.Time
}

func (s soon) Deadline() (time.Time, bool) { return s.end, true }

// What a worker has lost is lost on a full disk, too: one that comes back as another one is there at once, and what ran in a container that is gone is lost.
func TestLostOnAFullDisk(t *testing.T) {
	dir := smallDisk(t)
	for _, c := range []struct {
		name string
		lose func(t testing.TB, r *reborn, p *Process)
	}{
		{"with its worker", func(t testing.TB, r *reborn, _ *Process) { r.comeBack(t) }},
		{"behind the host's back", func(t testing.TB, r *reborn, p *Process) {
			conn, err := r.Runtime.Worker("m")
			if err == nil {
				err = conn.DestroyContainer(testkit.Context(t), p.container)
			}
			if err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			testkit.Bubble(t, func(t testing.TB) {
				dir := filepath.Join(dir, "state")
				fillNewStateDir(t, dir)
				r := newReborn(t, Options{StateDir: dir})
				p := script(t, r.h, "owner", "echo runs; sleep 100000")
				awaitText(t, p, "runs")
				other := fillDisk(t, r.h, dir)
				giveReserve(t, r.h, dir)
				c.lose(soon{t, time.Now().Add(10 * time.Minute)}, r, p)
				if o := waitOutcome(t, p); !errors.As(o.Err, new(*LostError)) {
					t.Errorf("what was lost on a full disk has ended with %+v", o)
				}
				if w := r.h.Workers()[0]; !w.Up {
					t.Errorf("the full disk has taken the worker away: %s", w.Why)
				}
				closeTestHost(t, r.h)
				if err := errors.Join(os.Remove(other), os.RemoveAll(dir)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A step that has failed has failed, whether its container can still be kept for people to look at or not: its worker may have come back without it.
func TestFailedThoughNothingIsLeftToKeep(t *testing.T) {
	t.Parallel()
	testkit.Bubble(t, func(t testing.TB) {
		var r *reborn
		r = newReborn(t, Options{KeepFailed: true, fault: func(at string) {
			if at == "exit-stored" {
				r.comeBack(t)
			}
		}})
		res, err := r.h.Run(testkit.Context(t), RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  step "s" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "exit 3"]
    }
  }
}`)})
		if err != nil || res.Steps[0].Summary() != "failed: exit code 3" {
			t.Errorf("%+v, %v", res, err)
		}
		r.agrees(t)
	})
}

// A container that its worker could not make, when the disk had no room to note even that it is to be destroyed, is not in the way of the one that is made next.
func TestHalfMadeOnAFullDisk(t *testing.T) {
	dir := smallDisk(t)
	testkit.Bubble(t, func(t testing.TB) {
		dir := filepath.Join(dir, "state")
		fillNewStateDir(t, dir)
		var h *Host
		var other string
		o := &hooked{Runtime: newMemory(t, "m"), on: map[string]func(int, func() error) error{"create": func(n int, real func() error) error {
			if n > 1 {
				return real()
			}
			dropReserve(t, dir)
			other = fillDisk(t, h, dir)
			return sdk.NewExhausted(sdk.ReasonMemory, "too much to do")
		}}}
		h = openHost(t, o, Options{StateDir: dir}, "m")
		makeRoom := sync.OnceFunc(func() {
			if err := os.Remove(other); err != nil {
				t.Error(err)
			}
			testkit.Until(t, "there is room again", func() bool { return h.Room(t.Context()).Full == nil })
		})
		paused, places := 0, 0
		res, err := h.Run(testkit.Context(t), RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  step "s" {
    run { path = "true" }
  }
}`), Events: func(e Event) {
			switch e.Kind {
			case EventPlaced:
				places++
			case EventPaused:
				if strings.Contains(e.Message, "the disk of the state directory "+dir+" is full") {
					paused++
				}
			}
			if paused+places >= 2 { // it is told, or tries again
				makeRoom()
			}
		}})
		if err != nil || !res.Succeeded() || paused == 0 {
			t.Errorf("%+v, %v; told %d times that the disk is full", res, err, paused)
		}
		testkit.Until(t, "nothing is left on the worker", func() bool { return len(onWorker(t, o, "m")) == 0 })
		closeTestHost(t, h)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
}
