package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// fullJob's step takes an input, stdin, and what its cache holds, to which it adds a line; it writes, and ends with a code.
const fullJob = `
job "full" {
  input "text" {}
  step "s" {
    inputs  = { text = input.text }
    outputs = ["o"]
    %s
    run {
      path = "sh"
      args = ["-ec", "%s; if [ -d kept ]; then if [ -f kept/lines ]; then cat kept/lines; fi; echo line >> kept/lines; fi; echo $x; cat text/in.txt > o/a; sleep 0.01; echo end; exit %d"]
    }
  }
  output "o" { from = step.s.o }
}`

// fullKind is a kind of step that a full disk meets.
type fullKind struct {
	name       string
	caches     bool
	keepFailed bool
	deaf       bool // it takes no stdin: in a bubble, no time passes while a shell waits for that
}

func (k fullKind) job() string {
	caches, read, code := "", "read x", 0
	if k.deaf {
		read = "x=given"
	}
	if k.caches {
		caches = `caches = ["kept"]`
	}
	if k.keepFailed {
		code = 3
	}
	return fmt.Sprintf(fullJob, caches, read, code)
}

var (
	ofOutputs    = fullKind{name: "outputs"}
	ofCaches     = fullKind{name: "caches", caches: true}
	ofKeepFailed = fullKind{name: "keep_failed", keepFailed: true}
)

// fullPoints are where the disk becomes full in the life of a step, and the kinds of step that come there.
func fullPoints() (out []struct {
	point
	kinds []fullKind
}) {
	add := func(kinds []fullKind, points ...point) {
		for _, p := range points {
			out = append(out, struct {
				point
				kinds []fullKind
			}{p, kinds})
		}
	}
	add([]fullKind{ofOutputs, ofCaches, ofKeepFailed},
		point{"claimed", 1}, point{"volume-intent", 1}, point{"volume-made", 1}, point{"volume-intent", 2}, point{"volume-made", 2},
		point{"volume-intent", 3}, point{"volume-made", 3}, point{"container-intent", 1}, point{"container-made", 1}, point{"container-ready", 1},
		point{"start-intent", 1}, point{"start-send", 1}, point{"start-sent", 1}, point{"started", 1},
		point{"output", 1}, point{"output", 2}, point{"exit", 1}, point{"exit-stored", 1}, point{"step-ended", 1}, point{"step-kept", 1})
	add([]fullKind{ofOutputs, ofCaches, ofKeepFailed}, []point{{"run-kept", 1}}...)
	add([]fullKind{ofOutputs, ofCaches}, point{"destroy-intent", 1}, point{"destroyed", 1}, point{"output-sealed", 1}, point{"output-registered", 1})
	add([]fullKind{ofCaches}, point{"cache-sealed", 1}, point{"cache-registered", 1})
	return out
}

// A step whose disk becomes full at any moment of it ends as it would have: the disk is made free once somebody is told that the step waits for that, if anybody is.
// It is started once, what it wrote, made and cached is there, and nothing else is left on its worker.
func TestStepMeetsAFullDiskAtEveryPoint(t *testing.T) {
	dir := smallDisk(t)
	for _, at := range fullPoints() {
		for _, kind := range at.kinds {
			t.Run(fmt.Sprintf("%s-%d/%s", at.name, at.nth, kind.name), func(t *testing.T) {
				testkit.Bubble(t, func(t testing.TB) { meetFullDisk(t, filepath.Join(dir, "state"), at.point, kind, false) })
			})
		}
	}
}

// The same where not even the reserve is left, so that nothing at all can be noted until there is room: whoever waits for the step is told so at once, at every point.
func TestStepMeetsAWhollyFullDiskAtEveryPoint(t *testing.T) {
	dir := smallDisk(t)
	gate := []string{"claimed", "container-made", "start-sent", "started", "exit", "destroy-intent", "step-ended", "step-kept", "run-kept"}
	for _, at := range fullPoints() {
		for i, kind := range at.kinds {
			t.Run(fmt.Sprintf("%s-%d/%s", at.name, at.nth, kind.name), func(t *testing.T) {
				if i > 0 || at.nth > 1 || !slices.Contains(gate, at.name) {
					testkit.Soak(t, "a few points are walked in the gate")
				}
				kind.deaf = true
				testkit.Bubble(t, func(t testing.TB) { meetFullDisk(t, filepath.Join(dir, "state"), at.point, kind, true) })
			})
		}
	}
}

// meetFullDisk runs a step whose disk becomes full at a point, with what is kept in reserve on it or without.
func meetFullDisk(t testing.TB, dir string, at point, kind fullKind, bare bool) {
	fillNewStateDir(t, dir)
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}()
	o := &hooked{Runtime: newMemory(t, "m")}
	var h *Host
	var other string      // the file that leaves no room
	var full time.Time    // since when there is none
	var seen atomic.Int32 // volumes are made side by side
	filled := make(chan struct{})
	h = openHost(t, o, Options{StateDir: dir, KeepFailed: kind.keepFailed, fault: func(name string) {
		if name != at.name {
			return
		}
		if int(seen.Add(1)) == at.nth {
			if bare {
				dropReserve(t, dir)
			}
			other, full = fillDisk(t, h, dir), time.Now()
			close(filled)
		}
	}}, "m")
	defer closeTestHost(t, h) // before its directory goes
	free := func() {
		if err := os.Remove(other); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
	var p *Process
	var told []string
	var toldAfter time.Duration // of the bubble's time
	target := filepath.Join(t.TempDir(), "out")
	var req RunRequest
	req = RunRequest{ID: "r", Job: parseJob(t, kind.job()), Inputs: map[string]string{"text": tree(t, map[string]string{"in.txt": "content\n"})},
		Outputs: map[string]string{"o": target}, Stdin: strings.NewReader("given\n"), Events: func(e Event) {
			switch e.Kind {
			case EventStarted:
				p = e.Process
			case EventPaused:
				<-filled
				if len(told) == 0 {
					toldAfter = time.Since(full)
					if bare && h.Room(t.Context()).Full == nil {
						t.Error("it is told that a step waits for room, and the host's own figures say nothing of that")
					}
				}
				told = append(told, e.Message)
				free()
			case EventFinished:
				if !stepIsKept(t, h, req.ID, e.Step) {
					t.Error("it is told what the step came to, and that is not kept")
				}
			}
		}}
	res, err := h.Run(testkit.Context(t), req)
	if int(seen.Load()) < at.nth {
		t.Fatal("the point was not reached")
	}
	free() // where nobody had to wait for that
	if err != nil {
		t.Fatalf("%v; told %d times: %.200q", err, len(told), told)
	}
	want := "succeeded"
	if kind.keepFailed {
		want = "failed: exit code 3"
	}
	if got := res.Steps[0].Summary(); got != want || res.Steps[0].Attempts != 1 {
		t.Fatalf("the step has %s, in %d attempts, want %s; told %d times: %.200q", got, res.Steps[0].Attempts, want, len(told), told)
	}
	for _, message := range told {
		if !strings.Contains(message, "the disk of the state directory "+dir+" is full") {
			t.Errorf("told: %s", message)
		}
	}
	if bare && (len(told) == 0 || toldAfter > time.Minute) {
		t.Errorf("told %d times that it waits for room, the first time after %s", len(told), toldAfter)
	}
	if n := o.calls("start"); n != 1 {
		t.Errorf("%d starts", n)
	}
	if got := output(t, p); got != "given\nend\n" {
		t.Errorf("it wrote %q", got)
	}
	if !kind.keepFailed {
		if b, err := os.ReadFile(filepath.Join(target, "a")); err != nil || string(b) != "content\n" {
			t.Errorf("its output is %q, %v", b, err)
		}
	}
	left := map[string]int{ofCaches.name: 1, ofKeepFailed.name: 4}[kind.name] // the cache; the container, its two volumes, and what one of them is a copy of
	testkit.Until(t, fmt.Sprintf("%d things are left on the worker", left), func() bool { return len(onWorker(t, o, "m")) == left })
	if !kind.caches {
		return
	}
	testkit.Until(t, "there is room again", func() bool { return h.Room(t.Context()).Full == nil })
	req.ID, req.Stdin, req.Outputs = "next", strings.NewReader("given\n"), nil
	if res, err = h.Run(testkit.Context(t), req); err != nil || !res.Succeeded() {
		t.Fatalf("the next run: %+v, %v", res, err)
	}
	if got := output(t, p); got != "line\ngiven\nend\n" {
		t.Errorf("the next run has written %q: it has not found the cache", got)
	}
}

// stepIsKept tells whether the store has what a step came to.
func stepIsKept(t testing.TB, h *Host, run, step string) (is bool) {
	t.Helper()
	err := h.store.View(t.Context(), func(tx *store.Tx) error {
		kept, _, err := keptSteps(tx, run)
		_, is = kept[step]
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return is
}

// fillNewStateDir makes a state directory as newStateDir does, whose reserve takes the room that it is to keep.
func fillNewStateDir(t testing.TB, dir string) {
	t.Helper()
	database, err := emptyDatabase()
	if err == nil {
		err = errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "slipway.db"), database, 0o600),
			os.WriteFile(filepath.Join(dir, "reserve"), slices.Repeat([]byte{1}, 4<<20), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// dropReserve takes away what a state directory keeps in reserve, as if it had been used up.
func dropReserve(t testing.TB, dir string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, "reserve")); err != nil {
		t.Error(err)
	}
}

// A host that is killed before it has noted that a process runs, and opened again when the disk is full, has its worker, and follows the process.
func TestStartIsSettledOnAFullDisk(t *testing.T) {
	dir := smallDisk(t)
	for _, bare := range []bool{false, true} {
		t.Run(fmt.Sprintf("without a reserve %t", bare), func(t *testing.T) {
			testkit.Bubble(t, func(t testing.TB) { settleOnFullDisk(t, filepath.Join(dir, "state"), bare) })
		})
	}
}

func settleOnFullDisk(t testing.TB, dir string, bare bool) {
	fillNewStateDir(t, dir)
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}()
	rt := newMemory(t, "m")
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	p := script(t, h, "owner", "echo runs; sleep 100000")
	awaitText(t, p, "runs")
	closeTestHost(t, h)
	asIfStarting(t, dir, p.id)
	opened := make(chan *Host, 1)
	var other string
	o := &hooked{Runtime: rt, on: map[string]func(int, func() error) error{"list-processes": func(n int, real func() error) error {
		if n == 1 {
			if bare {
				dropReserve(t, dir)
			}
			other = fillDisk(t, <-opened, dir)
		}
		return real()
	}}}
	h, err := Open(t.Context(), testConfig("m"), Options{StateDir: dir, Runtimes: map[string]sdk.Runtime{"memory": o}})
	if err != nil {
		t.Fatal(err)
	}
	defer closeTestHost(t, h)
	opened <- h
	if err := h.Ready(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	if r := h.Workers()[0]; !r.Up {
		t.Fatalf("the full disk has taken the worker away: %s", r.Why)
	}
	if n := o.calls("list-processes"); n != 1 {
		t.Errorf("it was settled in %d attempts", n)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it is noted that it runs", func() bool {
		row, err := h.processRow(t.Context(), p.id)
		return err == nil && row.State == lifecycle.ProcessRunning
	})
	if p, err = h.FindProcess(t.Context(), "owner", MainProcess); err != nil {
		t.Fatal(err)
	}
	awaitText(t, p, "runs")
	c, err := h.FindContainer(t.Context(), "owner")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Destroy(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
}

// asIfStarting makes of a state directory what a host leaves that is killed when it has sent a start and not noted what came of it.
func asIfStarting(t testing.TB, dir, process string) {
	t.Helper()
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error {
		row, err := tx.Process(process)
		if err != nil {
			return err
		}
		row.State, row.StartedAt = lifecycle.ProcessStarting, time.Time{}
		return tx.PutProcess(row)
	})
	if err != nil {
		t.Fatal(err)
	}
}
