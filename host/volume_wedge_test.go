package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
)

// runs runs a job so many times at once, each with an output of its own, and gives what they wrote.
func runs(t *testing.T, h *Host, n int, text string) []string {
	t.Helper()
	out := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		dir := filepath.Join(t.TempDir(), "out")
		all.Go(func() {
			res, err := h.Run(testkit.Context(t), RunRequest{ID: fmt.Sprint("r", i), Job: parseJob(t, text), Outputs: map[string]string{"o": dir}})
			if err != nil || !res.Succeeded() {
				t.Errorf("run %d: %s, %v", i, states(res), err)
				return
			}
			got, err := os.ReadFile(filepath.Join(dir, "f"))
			if err != nil {
				t.Error(err)
			}
			out[i] = string(got)
		})
	}
	all.Wait()
	return out
}

// together has the first so many processes begin only when all of them have their containers.
func together(o *hooked, n int) {
	var here sync.WaitGroup
	here.Add(n)
	o.on = map[string]func(int, func() error) error{"start": func(i int, real func() error) error {
		if i <= n {
			here.Done()
			here.Wait()
		}
		return real()
	}}
}

const twoSteps = `
job "two" {
  step "a" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "echo made by a > o/f"]
    }
  }
  step "b" {
    inputs  = { i = step.a.o }
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "cat i/f > o/f; echo and b >> o/f"]
    }
  }
  output "o" { from = step.b.o }
}`

// Runs that wait for each other's room, each of which has the last copy of what it needs on the worker, all come to their ends.
func TestRunsThatHoldTheRoom(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			rt := newMemory(t, "m")
			o := &hooked{Runtime: rt}
			together(o, n)
			h := limitedHost(t, o, Options{}, 3, "m")
			for i, got := range runs(t, h, n, twoSteps) {
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

// What each step makes at the path of what it was given is a copy of that: the older ones stay for as long as the newest does, and yet the step after them gets its room.
func TestRoomOfWhatGoesOnInPlace(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("job \"line\" {\n")
	for i := range 6 {
		inputs := ""
		if i > 0 {
			inputs = fmt.Sprintf("inputs = { o = step.s%d.o }", i-1)
		}
		fmt.Fprintf(&text, `step "s%d" {
  %s
  outputs = ["o"]
  run {
    path = "sh"
    args = ["-c", "echo %d >> o/f"]
  }
}
`, i, inputs, i)
	}
	text.WriteString("output \"o\" { from = step.s5.o }\n}")
	h := limitedHost(t, newMemory(t, "m"), Options{}, 3, "m")
	if got := runs(t, h, 1, text.String()); got[0] != "0\n1\n2\n3\n4\n5\n" {
		t.Errorf("it wrote %q", got)
	}
	checkEmpty(t, h)
}

// cachedWithin is cached that does not wait for ever.
func cachedWithin(t *testing.T, h *Host, step, text string) string {
	t.Helper()
	out, res := runCached(t, testkit.Context(t), h, step, "", text, func(*Process) {})
	if !res.Succeeded() {
		t.Fatalf("%s: %s", step, res.Steps[0].Summary())
	}
	return out
}

// The generations of a step's own cache make room for it, and it goes on from the newest all the same, as long as the host has room for that on its disk. Else it begins empty: a cache is
// not worth waiting for.
func TestOwnCacheMakesRoom(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limit int
		blobs BlobLimits
		keeps func(run int) bool // what the run before has left
	}{
		"with room on the disk":         {3, BlobLimits{}, func(int) bool { return true }},
		"where the worker has a little": {2, BlobLimits{}, func(int) bool { return true }},
		"without room on the disk":      {3, nowhere, func(run int) bool { return run%3 != 0 }},
		"where it can never be brought": {1, BlobLimits{}, func(int) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := limitedHost(t, newMemory(t, "m"), Options{Blobs: test.blobs}, test.limit, "m")
			want := ""
			for i := range 2*maxCacheChain + 1 {
				if !test.keeps(i) {
					want = ""
				}
				if got := cachedWithin(t, h, "s", "touch c/n; cat c/n; echo x >> c/n"); got != want {
					t.Fatalf("run %d found %q, want %q", i, got, want)
				}
				want += "x\n"
			}
		})
	}
}

// All generations of a cache make room for another step together.
func TestOtherCacheMakesRoom(t *testing.T) {
	t.Parallel()
	h := limitedHost(t, newMemory(t, "a"), Options{}, 5, "a")
	for range 4 {
		cachedWithin(t, h, "s", "echo x >> c/n")
	}
	if n := h.index.Usage("a").Volumes; n != 4 {
		t.Fatalf("%d volumes are there, want 4 generations", n)
	}
	placedSoon(t, askFor(t, h, "wants", 4), "a container that needs the room of three of them")
	if rows, err := h.volumes(t.Context(), store.VolumeFilter{Worker: "a"}); err != nil || len(rows) != 5 {
		t.Errorf("the oldest is to be there yet: %+v, %v", rows, err)
	}
	caches, err := h.Artifacts(testkit.Context(t), ArtifactFilter{Caches: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range caches {
		if len(c.Places) == 0 {
			t.Errorf("%s was given up, and is listed still", c.Name)
		}
	}
}

// TestEmptyCacheIsReaped: a cache whose last replica was lost, or given up by a host that was killed in the middle, is not listed until it would expire.
func TestEmptyCacheIsReaped(t *testing.T) {
	t.Parallel()
	h := limitedHost(t, newMemory(t, "a"), Options{}, 5, "a")
	cachedWithin(t, h, "s", "echo x >> c/n")
	rows, err := h.volumes(testkit.Context(t), store.VolumeFilter{Worker: "a", States: []string{lifecycle.VolumeSealed}})
	if err != nil || len(rows) != 1 {
		t.Fatalf("the cache has %+v, %v", rows, err)
	}
	reapAll(t, h)
	if caches, err := h.Artifacts(testkit.Context(t), ArtifactFilter{Caches: true}); err != nil || len(caches) != 1 {
		t.Fatalf("while it has content, there are %+v, %v", caches, err)
	}
	err = h.store.Update(testkit.Context(t), store.KillSafe, func(tx *store.Tx) error {
		_, err := h.moveVolume(tx, rows[0].ID, lifecycle.Missing, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	reapAll(t, h)
	if caches, err := h.Artifacts(testkit.Context(t), ArtifactFilter{Caches: true}); err != nil || len(caches) != 0 {
		t.Errorf("without content, there are %+v, %v", caches, err)
	}
}

// madeBy gives what a container of an owner leaves in its one output.
func madeBy(t *testing.T, h *Host, owner string) *Artifact {
	t.Helper()
	c, err := h.Container(t.Context(), owner, ContainerRequest{Outputs: []Output{{Name: "o", Path: "o"}}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "echo " + owner + " > o/f"}})
	if err == nil {
		_, err = p.Wait(testkit.Context(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.Seal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return made["o"]
}

// A request that needs more than a worker may ever have fails at once, and says so.
func TestNeverFits(t *testing.T) {
	t.Parallel()
	h := limitedHost(t, newMemory(t, "m"), Options{}, 3, "m")
	a := madeBy(t, h, "first")
	req := wants(a)
	req.WaitLimit = 0
	req.Outputs = []Output{{"o", "o"}, {"p", "p"}}
	_, err := h.Container(testkit.Context(t), "second", req)
	const says = "no compatible worker for 3 volumes: 1 too small (m: 4 volumes (3 of its own, 1 for its inputs) wanted, 3 allowed): add a bigger worker or raise its limit, or ask for less"
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("it came to %v", err)
	}
}

// Where the last copies can go nowhere, whoever waits is told what holds the room and why it cannot be copied, and so is who asks; once there is room on the disk, he gets his place.
func TestHeldRoomIsTold(t *testing.T) {
	t.Parallel()
	h := limitedHost(t, newMemory(t, "m"), Options{Blobs: BlobLimits{Total: 1}}, 3, "m")
	one, two := madeBy(t, h, "one"), madeBy(t, h, "two")
	says := make(chan string, 100)
	req := wants(one)
	req.WaitLimit, req.Outputs = 0, []Output{{"o", "o"}}
	req.Observe = func(e Event) {
		if e.Kind == EventWaiting && strings.Contains(e.Message, "no more room can be made") {
			says <- e.Message
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := h.Container(t.Context(), "waits", req)
		done <- err
	}()
	const held = "held by artifact one/o (1 volume), artifact two/o (1 volume, the last copy, which could not be copied elsewhere: "
	select {
	case text := <-says:
		if !strings.Contains(text, held) || !strings.Contains(text, "raise quota in the configuration's artifacts block") {
			t.Errorf("it is told %s", text)
		}
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-testkit.Context(t).Done():
		t.Fatal("it is not told why it waits")
	}
	e, err := h.ExplainOwner(t.Context(), "waits")
	if err != nil || !strings.Contains(e.Err.Error(), held) || !strings.Contains(e.Workers[0].Detail, held) {
		t.Errorf("explained: %+v, %v", e, err)
	}
	h.blobs.limit(BlobLimits{})
	h.roomOnDisk()
	placedSoon(t, done, "once there is room on the disk")
	if got := fileOf(t, h, two, "f"); got != "two\n" {
		t.Errorf("what was copied away has %q", got)
	}
}

// Why an artifact could not be copied away is told until it has been, also once it is time to try again: who asks just then is told no less.
func TestFailedCopyIsRemembered(t *testing.T) {
	testkit.Bubble(t, func(t testing.TB) {
		var r rooms
		if r.begin("a"); r.pauses("a") || r.failed("a") != nil {
			t.Error("it has failed before it was tried")
		}
		r.end("a", errors.New("the disk is full"))
		if !r.pauses("a") || r.failed("a") == nil {
			t.Error("it is tried again at once, or nobody is told why not")
		}
		time.Sleep(time.Until(r.nextLook()))
		if r.pauses("a") || r.failed("a") == nil {
			t.Error("it is not tried again in time, or nobody is told what it came to last")
		}
		if r.end("a", nil); r.failed("a") != nil {
			t.Error("what went well has failed")
		}
	})
}

// Without room on the disk, last copies go to another worker that has room, and where nobody waits for it.
func TestLastCopyGoesToAnotherWorker(t *testing.T) {
	t.Parallel()
	h, _ := fullWorker(t, 3, Options{Blobs: nowhere}, nil)
	all := dirs(t, h, "i", "j", "k")
	replicateAll(t, h, all, "a")
	placedSoon(t, askFor(t, h, "first", 1), "for one volume")
	if left, other := contentsOn(t, h, "a", all), contentsOn(t, h, "b", all); left != "j k" || other != "i" {
		t.Errorf("on a there are %q, on b %q", left, other)
	}
}

// Beside a container that may come to its end soon nothing is copied before somebody has waited for a while.
func TestCopiesAreNotHasty(t *testing.T) {
	t.Parallel()
	testkit.Bubble(t, func(t testing.TB) {
		h := limitedHost(t, newMemory(t, "m"), Options{}, 3, "m")
		all := dirs(t, h, "i", "j")
		replicateAll(t, h, all, "m")
		if _, err := h.Container(t.Context(), "runs", ContainerRequest{Outputs: []Output{{"o", "o"}}}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := h.Container(testkit.Context(t), "waits", ContainerRequest{Outputs: []Output{{"o", "o"}}}); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < copyPatience || len(blobsLeft(t, h)) != 1 {
			t.Errorf("it waited %v, and %q were copied", waited, blobsLeft(t, h))
		}
	})
}

// What is copied for somebody's room stays on the disk until all of that is, though the worker has it, too.
func TestCopiesForOneStayTogether(t *testing.T) {
	t.Parallel()
	let := make(chan struct{})
	o := &hooked{Runtime: newFar(t, &farWorker{name: "a"}), on: map[string]func(int, func() error) error{"stream-out": func(n int, real func() error) error {
		if n == 2 {
			<-let
		}
		return real()
	}}}
	h := limitedHost(t, o, Options{}, 3, "a")
	all := dirs(t, h, "i", "j")
	replicateAll(t, h, all, "a")
	done := askFor(t, h, "waits", 3)
	onDisk := func() (n int) {
		for _, a := range all {
			sources, err := h.sources(t.Context(), a)
			if err != nil {
				t.Error(err)
			}
			if slices.ContainsFunc(sources, func(s source) bool { return s.blobs != nil }) {
				n++
			}
		}
		return n
	}
	testkit.Until(t, "one of the two is on the disk", func() bool { return onDisk() == 1 })
	h.evictBlobs(t.Context(), 1<<30)
	if onDisk() != 1 {
		t.Error("it is not there any more")
	}
	close(let)
	placedSoon(t, done, "once both are")
}
