package host

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// What can be copied nowhere holds up nothing else, however early its turn is, and is copied once it can be.
func TestMovesThatFailHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	cfg := testConfig("a", "teams", "all")
	cfg.Workers[1].Team = "t"
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "a", "teams", "all")}})
	onA := func(team string) ContainerRequest {
		return ContainerRequest{Team: team, Exclude: map[string]string{"teams": "for the test", "all": "for the test"}}
	}
	var stuck, good []*Artifact
	for _, owner := range []string{"1", "2"} { // in the order in which they are found
		stuck = append(stuck, makeArtifact(t, h, owner, onA("")))
	}
	for _, owner := range []string{"3", "4", "5"} {
		good = append(good, makeArtifact(t, h, owner, onA("t")))
	}
	ctx := testkit.Context(t)
	if err := errors.Join(h.CordonWorker(ctx, "all", ""), h.RetireWorker(ctx, "a", "")); err != nil {
		t.Fatal(err)
	}
	for _, a := range good {
		testkit.Until(t, a.Name+" is copied", func() bool { return slices.Contains(volumesOf(t, h, a.Name), "teams") })
	}
	testkit.Until(t, "the drain says why the others are not", func() bool {
		d := reportOf(t, h, "a").Drain
		return d != nil && len(d.Artifacts) == 2 && d.Artifacts[0].Why != "" && d.Artifacts[1].Why != ""
	})
	if err := errors.Join(h.UncordonWorker(ctx, "all"), h.AwaitDrained(ctx, "a", nil)); err != nil {
		t.Fatal(err)
	}
	for _, a := range stuck {
		if on := volumesOf(t, h, a.Name); !slices.Equal(on, []string{"all"}) {
			t.Errorf("%s is on %q", a.Name, on)
		}
	}
}

// Copies begin with what is needed now; of that, with what has never failed, then with what failed the longest ago. What
// has just failed has no turn, and what is not to be moved any more is forgotten.
func TestOrderOfMoves(t *testing.T) {
	t.Parallel()
	now := time.Now()
	failed := func(until time.Time) *copyFailure { return &copyFailure{err: errors.New("no"), until: until} }
	m := newMover(nil, nil)
	m.failures = map[string]*copyFailure{"1": failed(now.Add(-time.Minute)), "2": failed(now.Add(-time.Hour)),
		"3": failed(now.Add(time.Hour)), "gone": failed(now)}
	var moves []move
	for _, v := range []struct {
		id   string
		need need
	}{{"0", needNot}, {"1", needNow}, {"2", needNow}, {"3", needNow}, {"4", needLater}, {"5", needNow}, {"6", needNow}} {
		moves = append(moves, move{artifact: &Artifact{ID: v.id}, need: v.need})
	}
	over, cancel := context.WithCancel(t.Context())
	cancel() // nothing begins
	m.move(over, moves)
	var order []string
	for _, v := range m.due {
		order = append(order, v.artifact.ID)
	}
	if want := []string{"5", "6", "2", "1", "4", "0"}; !slices.Equal(order, want) {
		t.Errorf("copied in the order %q, want %q", order, want)
	}
	if len(m.failures) != 3 || m.failures["gone"] != nil {
		t.Errorf("failures: %v", m.failures)
	}
}

// A drain that waits for nothing else goes on until a copy has failed so often that its pause does not grow any more.
func TestDrainTriesCopiesAgain(t *testing.T) {
	t.Parallel()
	m := newMover(nil, nil)
	f := new(copyFailure)
	m.failures = map[string]*copyFailure{"1": f}
	for pause, last := f.next.after(nil), time.Duration(0); pause < statusEvery; pause = f.next.after(nil) {
		if pause <= last || !m.busy() {
			t.Errorf("a pause of %s after one of %s; it is tried again: %t", pause, last, m.busy())
		}
		last = pause
	}
	if m.busy() {
		t.Error("it is waited for without end")
	}
}
