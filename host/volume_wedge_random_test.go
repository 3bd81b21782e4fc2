package host

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// A host that is killed in the middle of copying something away, or just after it, leaves nothing that the next one does not mend: the runs come to their ends, and what was copied goes with
// them.
func TestKilledWhileCopying(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"blob-copied", "blob-kept", "replica-doomed"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			o := &hooked{Runtime: newMemory(t, "m")}
			together(o, 3)
			dir := newStateDir(t)
			var h *Host
			var once sync.Once
			ctx, killed := context.WithCancel(testkit.Context(t))
			h = limitedHost(t, o, Options{StateDir: dir, fault: func(at string) {
				if at == point {
					once.Do(func() {
						if err := h.store.Close(); err != nil {
							t.Error(err)
						}
						killed()
					})
				}
			}}, 3, "m")
			var all sync.WaitGroup
			for i := range 3 {
				target := filepath.Join(t.TempDir(), "out")
				all.Go(func() {
					if res, err := h.Run(ctx, RunRequest{ID: fmt.Sprint("r", i), Job: parseJob(t, twoSteps), Outputs: map[string]string{"o": target}}); err == nil {
						t.Errorf("run %d has ended under a killed host: %s", i, states(res))
					}
				})
			}
			<-ctx.Done()
			closeTestHost(t, h)
			all.Wait()
			h = limitedHost(t, o, Options{StateDir: dir}, 3, "m")
			for i, got := range runs(t, h, 3, twoSteps) {
				if got != "made by a\nand b\n" {
					t.Errorf("run %d wrote %q", i, got)
				}
			}
			checkEmpty(t, h)
			if left := blobsLeft(t, h); len(left) > 0 || h.blobs.used != 0 {
				t.Errorf("left on the disk: %q, %d bytes", left, h.blobs.used)
			}
		})
	}
}

// Runs of all kinds at once on workers with little room, which also fail to send now and then, come to their ends: each of their steps has room on an empty worker.
func TestRunsInLittleRoom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testkit.Times(12, 20_000)) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			testkit.Bubble(t, func(t testing.TB) { littleRoom(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func littleRoom(t testing.TB, dice *rand.Rand) {
	var mu sync.Mutex
	fails := rand.New(rand.NewPCG(dice.Uint64(), 2))
	workers := []string{"a", "b"}[:1+dice.IntN(2)]
	o := &hooked{Runtime: newMemory(t, workers...)}
	o.on = map[string]func(int, func() error) error{"stream-out": func(_ int, real func() error) error {
		mu.Lock()
		n := fails.IntN(8)
		mu.Unlock()
		if n == 0 {
			return sdk.NewUnavailable(nil, "not now")
		}
		return real()
	}}
	h := limitedHost(t, o, Options{}, 4+dice.IntN(3), workers...)
	var all sync.WaitGroup
	for i := range 2 + dice.IntN(5) {
		text, want := line(dice, i)
		target := filepath.Join(t.TempDir(), "out")
		all.Go(func() {
			res, err := h.Run(testkit.Context(t), RunRequest{Job: parseJob(t, text), Outputs: map[string]string{"o": target}, CacheScope: fmt.Sprint(i % 2), Events: func(e Event) {
				if e.Kind == EventWaiting && e.Message != "" {
					t.Logf("run %d, step %s waits: %s", i, e.Step, e.Message)
				}
			}})
			if err != nil || !res.Succeeded() {
				t.Errorf("%v\n%s", err, text)
				for _, s := range res.Steps {
					t.Errorf("%s: %s", s.Step, s.Summary())
				}
				return
			}
			if got, err := os.ReadFile(filepath.Join(target, "f")); err != nil || string(got) != want {
				t.Errorf("it wrote %q, want %q: %v", got, want, err)
			}
		})
	}
	all.Wait()
}

// line is a job whose steps each go on from what the one before has made, some of them in place, some with a cache, and what it writes.
func line(dice *rand.Rand, job int) (text, want string) {
	var b strings.Builder
	fmt.Fprintf(&b, "job \"line%d\" {\n", job)
	steps := 2 + dice.IntN(4)
	for i := range steps {
		inputs, caches, first := "", "", ""
		if i > 0 {
			inputs = fmt.Sprintf("inputs = { o = step.s%d.o }", i-1)
			if dice.IntN(2) == 0 {
				inputs, first = fmt.Sprintf("inputs = { i = step.s%d.o }", i-1), "cat i/f > o/f; "
			}
		}
		if dice.IntN(2) == 0 {
			caches, first = "caches = [\"c\"]", first+"echo x >> c/n; "
		}
		fmt.Fprintf(&b, "step \"s%d\" {\n%s\n%s\noutputs = [\"o\"]\nrun {\npath = \"sh\"\nargs = [\"-c\", \"%secho %d.%d >> o/f\"]\n}\n}\n", i, inputs, caches, first, job, i)
		want += fmt.Sprintf("%d.%d\n", job, i)
	}
	fmt.Fprintf(&b, "output \"o\" { from = step.s%d.o }\n}", steps-1)
	return b.String(), want
}
