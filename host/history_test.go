package host

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// history is a host and what its callers have asked of it, by what they were told: the oracle knows of each owner what must be true in the end, not from
// the records but from the answers.
type history struct {
	t   testing.TB
	dir string
	clk *testClock
	r   *reborn

	dice   *rand.Rand // of what happens, in one goroutine
	shared *Artifact
	lies   *lies
	owners map[string]*fate

	mu       sync.Mutex
	trouble  bool
	killed   bool // the host writes nothing any more
	chance   *rand.Rand
	verdicts map[string]string // the states of processes that have ended, by row
}

// fate is what the callers of one owner know of its container.
type fate struct {
	id   sdk.ContainerID
	want wish
	lost bool // its worker came back without it
}

type wish string

const (
	wantRunning wish = "running" // it was made, its process was started, and nobody has ended it
	wantSealed  wish = "sealed"  // its output is an artifact
	wantGone    wish = "gone"
	wantEither  wish = "either" // a call was cut by the end of the host: who made it asks again
	wantToSeal  wish = "seal"   // sealing has failed: who wanted it asks again
)

// meddle answers calls of the worker, now and then, as a bad one does: in each class, before and after the effect.
func (h *history) meddle(call string, real func() error) error {
	h.mu.Lock()
	n := 100
	if h.trouble && call != "follow" {
		n = h.chance.IntN(100)
	}
	h.mu.Unlock()
	away, failure := sdk.NewUnavailable(nil, "not now"), h.failure(call)
	switch {
	case n < 2:
		return away
	case n < 4:
		return errors.Join(real(), away)
	case n < 10:
		return failure
	case n < 14:
		return errors.Join(real(), failure)
	}
	return real()
}

// kill ends what the host writes at this moment, and those who wait for it: to the next one it was killed. What it still does on the worker is what was under way then.
func (h *history) kill(callers context.CancelFunc) {
	defer callers()
	h.mu.Lock()
	h.killed = true
	h.mu.Unlock()
	if err := h.r.h.store.Close(); err != nil {
		h.t.Errorf("closing the store: %v", err)
	}
}

// cut tells whether the host ends, so that nobody knows what became of what it was asked.
func (h *history) cut() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.killed || h.r.h.ctx.Err() != nil
}

// failure is an error of any class, of a kind that the call may have, and of none.
func (h *history) failure(call string) error {
	kind := sdk.KindContainer
	if strings.Contains(call, "volume") || call == "seal" || strings.HasPrefix(call, "stream") {
		kind = sdk.KindVolume
	}
	failures := [...]error{sdk.NewUnavailable(nil, "not now"), sdk.NewInternal(nil, "device or resource busy"), sdk.NewExhausted(sdk.ReasonMemory, "too much to do"), errors.New("oops"),
		sdk.NewInvalid(sdk.ReasonSpec, "no such thing"), sdk.NewUnsupported(sdk.FeatureTTY), &sdk.Error{Class: sdk.FailedPrecondition, Reason: sdk.ReasonInUse, Message: "in use"},
		sdk.NewAlreadyExists(kind, "another"), sdk.NewNotFound(kind, "it")}
	h.mu.Lock()
	defer h.mu.Unlock()
	return failures[h.chance.IntN(len(failures))]
}

func (h *history) open() {
	h.r.h = openHost(h.t, h.r, Options{StateDir: h.dir, clock: h.clk.clock()}, "m")
}

// note remembers how processes have ended, and fails if one ends in another way than was told before.
func (h *history) note() {
	var rows []store.Process
	err := h.r.h.store.View(h.t.Context(), func(tx *store.Tx) (err error) {
		rows, err = tx.Processes(store.ProcessFilter{})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, p := range rows {
		told := h.verdicts[p.ID]
		if told != "" && told != p.State+string(p.Exit) {
			h.t.Fatalf("process %s was %s, and is %s%s now", p.ID, told, p.State, p.Exit)
		}
		if p.State == lifecycle.ProcessExited || p.State == lifecycle.ProcessLost || p.State == lifecycle.ProcessAborted {
			h.verdicts[p.ID] = p.State + string(p.Exit)
		}
	}
}

// make has a container made with a process that runs until it is killed.
func (h *history) make(ctx context.Context, owner string) wish {
	req := ContainerRequest{Outputs: []Output{{"o", "o"}}, WaitLimit: -1}
	if h.shared != nil {
		req.Inputs = []Input{{h.shared, "in"}}
	}
	c, err := h.r.h.Container(ctx, owner, req)
	if err != nil && (h.cut() || ctx.Err() != nil) {
		return wantEither
	}
	if err != nil {
		return wantGone
	}
	h.set(owner, func(f *fate) {
		if f.id != "" && f.id != c.id && !h.gaveWay(ctx, f.id) {
			h.t.Errorf("%s has container %s and container %s", owner, f.id, c.id)
		}
		f.id = c.id
	})
	p, err := c.Start(ctx, MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "echo made > o/f; echo ready; sleep 100000"}})
	if err == nil {
		_, err = firstRecord(h.t, p)
	}
	if err != nil {
		return wantEither
	}
	return wantRunning
}

// gaveWay tells whether an owner may have another container than this one: it is over, and nothing was ever started in it.
func (h *history) gaveWay(ctx context.Context, id sdk.ContainerID) (gone bool) {
	err := h.r.h.store.View(ctx, func(tx *store.Tx) error {
		row, err := tx.Container(string(id))
		if err != nil {
			gone = errors.Is(err, store.ErrNotFound)
			return ignoreNotFound(err)
		}
		begun, err := tx.Processes(store.ProcessFilter{Container: row.ID})
		gone = over(row.State) && row.Owner == "" && len(begun) == 0
		return err
	})
	return gone || err != nil && h.cut()
}

// makeTwice has two callers ask at once: they get the same container, and one that was told that it runs has it.
func (h *history) makeTwice(ctx context.Context, owner string) wish {
	var other wish
	var both sync.WaitGroup
	both.Go(func() { other = h.make(ctx, owner) })
	one := h.make(ctx, owner)
	both.Wait()
	for _, want := range []wish{wantRunning, wantEither} {
		if one == want || other == want {
			return want
		}
	}
	return wantGone
}

func (h *history) set(owner string, change func(*fate)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h.owners[owner])
}

// end destroys or seals what an owner has.
func (h *history) end(ctx context.Context, owner string, seal bool) wish {
	c, err := h.r.h.FindContainer(ctx, owner)
	if errors.Is(err, store.ErrNotFound) {
		return wantGone
	}
	if err != nil {
		return wantEither
	}
	if !seal {
		_ = c.Destroy(ctx) // what it could not do is owed
		if h.cut() {
			return wantEither
		}
		return wantGone
	}
	if !h.killMain(ctx, owner) {
		return wantToSeal
	}
	_, err = c.Seal(ctx)
	if _, lost := errors.AsType[*LostError](err); lost || errors.Is(err, ReasonUnended) { // or aborted, by another caller
		_ = c.Destroy(ctx)
		if h.cut() {
			return wantEither
		}
		return wantGone
	}
	if err != nil {
		return wantToSeal
	}
	return wantSealed
}

// pick gives owners of which something is wanted.
func (h *history) pick(wants ...wish) []string {
	var out []string
	for _, owner := range slices.Sorted(maps.Keys(h.owners)) {
		if slices.Contains(wants, h.owners[owner].want) {
			out = append(out, owner)
		}
	}
	return out
}

// happen is what a few callers do at once.
func (h *history) happen(step int) {
	ctx, cancel := context.WithCancel(testkit.Context(h.t))
	defer cancel()
	var calls []func()
	busy := make(map[string]bool)
	do := func(owner string, f func(context.Context, string) wish) {
		if busy[owner] {
			return
		}
		busy[owner] = true
		calls = append(calls, func() {
			want := f(ctx, owner)
			h.set(owner, func(f *fate) { f.want = want })
		})
	}
	h.lies.turn(h.dice)
	if h.dice.IntN(3) == 0 {
		h.clk.pass(time.Duration(1+h.dice.IntN(5)) * testTiming.MissingGrace / 3)
	}
	ends, kills, comesBack := false, false, false
	for i := range 1 + h.dice.IntN(3) {
		switch what := h.dice.IntN(10); {
		case what < 4:
			owner := fmt.Sprintf("o%d.%d", step, i)
			h.begin(owner)
			switch h.dice.IntN(6) { // two at once ask for the same, or one ends what the other makes
			case 0, 1:
				do(owner, h.makeTwice)
			case 2:
				do(owner, h.makeAndEnd)
			default:
				do(owner, h.make)
			}
		case what < 8:
			if some := h.pick(wantRunning, wantToSeal, wantEither); len(some) > 0 {
				seal := what == 7
				owner := some[h.dice.IntN(len(some))]
				if h.owners[owner].want == wantEither {
					seal = false // nobody knows what it has made
				}
				switch {
				case h.dice.IntN(4) > 0:
					do(owner, func(ctx context.Context, owner string) wish { return h.end(ctx, owner, seal) })
				case h.owners[owner].want == wantRunning:
					do(owner, h.endTwice)
				default:
					do(owner, h.makeAndEnd)
				}
			}
		case what == 8:
			calls = append(calls, func() { _, _ = h.r.h.Reap(ctx, false) })
		default:
			ends = true
			kills = h.dice.IntN(2) == 0
		}
	}
	switch {
	case kills:
		calls = append(calls, func() { h.kill(cancel) })
	case ends:
		calls = append(calls, func() { closeTestHost(h.t, h.r.h) })
	case h.dice.IntN(16) == 0: // under all that
		comesBack = true
		calls = append(calls, func() { h.r.comeBack(h.t) })
	}
	var work sync.WaitGroup
	for _, call := range calls {
		work.Go(call)
	}
	work.Wait()
	if comesBack {
		for _, f := range h.owners {
			f.lost = true
		}
	}
	if kills {
		closeTestHost(h.t, h.r.h) // it only lets go of what is not on the disk
		h.killed = false
	}
	if ends {
		h.open()
	}
	h.note()
}

// begin makes an owner known, of whom nothing is known yet.
func (h *history) begin(owner string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owners[owner] = &fate{want: wantEither}
}

// settle lets everybody ask again for what was cut, of a worker that does all it is told, and waits until all is paid.
func (h *history) settle() {
	h.mu.Lock()
	h.trouble = false
	h.mu.Unlock()
	h.lies.stop()
	ctx := testkit.Context(h.t)
	for _, owner := range h.pick(wantEither) {
		h.owners[owner].want = h.end(ctx, owner, false)
	}
	for _, owner := range h.pick(wantToSeal) {
		f := h.owners[owner]
		if f.want = h.end(ctx, owner, true); f.want == wantToSeal {
			h.t.Fatalf("%s cannot be sealed by a worker that does what it is told", owner)
		}
	}
	testkit.Until(h.t, "all that the last host left is settled", func() bool {
		report, err := h.r.h.Reap(ctx, true)
		return err == nil && len(report.Away) == 0
	})
	for range 2 { // what has no record is destroyed after the grace and a second look
		if _, err := h.r.h.Reap(ctx, false); err != nil {
			h.t.Fatal(err)
		}
		h.clk.pass(time.Second)
	}
	testkit.Until(h.t, "all is paid", func() bool { return len(h.r.h.AwaitOwed(ctx)) == 0 })
}

// check holds what is there against what must be.
func (h *history) check() {
	h.note()
	there := onWorker(h.t, h.r.Runtime, "m")
	var rows []string
	ready := make(map[string]bool)
	err := h.r.h.store.View(h.t.Context(), func(tx *store.Tx) error {
		containers, err := tx.Containers(store.ContainerFilter{})
		if err != nil {
			return err
		}
		for _, c := range containers {
			switch c.State {
			case lifecycle.ContainerReady:
				rows, ready[c.ID] = append(rows, "container "+c.ID), true
			case lifecycle.ContainerCreating, lifecycle.ContainerDestroying:
				h.t.Errorf("container %s is %s", c.ID, c.State)
			}
		}
		volumes, err := tx.Volumes(store.VolumeFilter{})
		for _, v := range volumes {
			rows = append(rows, "volume "+v.ID)
			if v.State == lifecycle.VolumeCreating || v.State == lifecycle.VolumeDestroying {
				h.t.Errorf("volume %s is %s", v.ID, v.State)
			}
			if v.Container == "" || ready[v.Container] {
				continue
			}
			// What hid a container for longer than the grace may have gone on listing its output, which its owner may still want.
			if !h.lies.hidThing(v.Container) {
				h.t.Errorf("volume %s is kept for container %s, which is over", v.ID, v.Container)
			}
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	// What was hidden for longer than the grace has no record any more. If it is listed again it goes, but not before what was made of it.
	parents := h.parents()
	there = slices.DeleteFunc(there, func(name string) bool {
		id := strings.TrimPrefix(name, "volume ")
		return parents[id] && h.lies.hidThing(id) && !slices.Contains(rows, name)
	})
	slices.Sort(there)
	slices.Sort(rows)
	if !slices.Equal(there, rows) {
		h.t.Errorf("the worker has\n%s\nand the rows say\n%s", strings.Join(there, "\n"), strings.Join(rows, "\n"))
	}
	for owner, f := range h.owners {
		row, err := h.r.h.containerByOwner(h.t.Context(), owner)
		if err = ignoreNotFound(err); err != nil {
			h.t.Fatal(err)
		}
		switch f.want {
		case wantRunning:
			if f.lost || h.lies.hidLong(owner) {
				continue
			}
			p, err := h.r.h.FindProcess(h.t.Context(), owner, MainProcess)
			if err != nil || row.State != lifecycle.ContainerReady || row.ID != string(f.id) {
				h.t.Errorf("%s was made and never ended, and is %q: %v", owner, row.State, err)
				continue
			}
			select {
			case <-p.Done():
				h.t.Errorf("the process of %s was never ended, and has", owner)
			default:
			}
		case wantSealed:
			if row.State == lifecycle.ContainerReady {
				h.t.Errorf("%s was sealed, and is ready", owner)
			}
			if f.lost || h.lies.hidLong(owner) {
				continue
			}
			a, err := h.r.h.Artifact(h.t.Context(), OutputName(owner, "o"))
			if err != nil {
				h.t.Errorf("the output of %s: %v", owner, err)
				continue
			}
			if got := fileOf(h.t, h.r.h, a, "f"); got != "made\n" {
				h.t.Errorf("the output of %s has %q", owner, got)
			}
		case wantGone:
			if row.State == lifecycle.ContainerReady {
				h.t.Errorf("%s was ended, and is ready", owner)
			}
		}
	}
}

// parents are the ids of the volumes of which something on the worker is a clone.
func (h *history) parents() map[string]bool {
	conn, err := h.r.Runtime.Worker("m")
	out := make(map[string]bool)
	if err == nil {
		err = conn.ListVolumes(h.t.Context(), sdk.Filter{}, func(i sdk.VolumeInfo) error {
			out[string(i.Parent)] = true
			return nil
		})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// TestHistories drives hosts at random: callers that make, seal and destroy side by side, also what another caller makes or ends at that moment, a reaper, hosts that are closed or
// killed in the middle of all that, and a worker that fails in every class before and after what it was told, lists less than it has, nothing, or what is not there, within the grace and
// beyond it, and comes back as another one, also while it destroys. In the end nothing that runs was forgotten, unless the worker hid it for longer than the grace, nothing in use was
// destroyed, all that was owed is paid, worker and records agree, and no verdict has changed.
func TestHistories(t *testing.T) {
	t.Parallel()
	first := uint64(1)
	if !testing.Short() {
		first = uint64(time.Now().UnixNano())
	}
	if *historySeed != 0 {
		first = *historySeed
	}
	rounds := testkit.Times(16, 100_000)
	if testkit.Race && !testing.Short() {
		rounds /= 5
	}
	rounds = cmp.Or(*historyRounds, rounds)
	for i := range uint64(rounds) {
		t.Run(fmt.Sprintf("seed %d", first+i), func(t *testing.T) {
			t.Parallel()
			bubbleMost(t, i, func(t testing.TB) { happenAll(t, first+i) })
		})
	}
}

// bubbleMost runs a history in a bubble, where nothing waits for time to pass; the first and each hundredth after it outside, where what takes its time meets what is timed.
func bubbleMost(t *testing.T, i uint64, history func(testing.TB)) {
	if i%100 == 0 {
		history(t)
		return
	}
	testkit.Bubble(t, history)
}

var historyRounds = flag.Int("history.rounds", 0, "how many TestHistories has; 0: as many as gate or soak want")

var historySeed = flag.Uint64("history.seed", 0, "where the seeds of TestHistories begin, to repeat one; 0: anywhere, but in short runs at 1")

func happenAll(t testing.TB, seed uint64) {
	h := &history{t: t, dir: newStateDir(t), clk: newTestClock(), owners: make(map[string]*fate), verdicts: make(map[string]string),
		chance: rand.New(rand.NewPCG(seed, 0)), dice: rand.New(rand.NewPCG(seed, 1))}
	h.lies = newLies(seed, h.clk)
	began := time.Now()
	defer func() {
		if took := time.Since(began); took > testTiming.WorkerGone/2 {
			t.Errorf("it took %s: something was waited for that did not come", took)
		}
	}()
	h.r = newReborn(t, Options{StateDir: h.dir, clock: h.clk.clock()})
	calls := h.r.hook
	h.r.hook = func(ctx context.Context, call, id string, n int, real func() error) error {
		return calls(ctx, call, id, n, func() error { return h.meddle(call, real) })
	}
	h.r.lists = h.lies.tell
	if h.dice.IntN(2) == 0 {
		h.shared = uploaded(t, h.r.h, "shared")
	}
	h.mu.Lock()
	h.trouble = true
	h.mu.Unlock()
	for step := range 1 + h.dice.IntN(12) {
		if h.dice.IntN(16) == 0 {
			h.r.comeBack(t)
			for _, f := range h.owners {
				f.lost = true
			}
		}
		h.happen(step)
	}
	h.settle()
	h.check()
}
