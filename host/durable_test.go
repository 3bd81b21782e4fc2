package host

import (
	"errors"
	"slices"
	"testing"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
)

// TestClaimsSurvivePower: the claim of a container, of a process and of a run is written by a transaction that waits for the disk, or not at all: no other will do, whoever
// asks for it. So nothing is made or started that the host does not know of after a loss of power.
func TestClaimsSurvivePower(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	moves := map[string]func(tx *store.Tx) error{
		"container": func(tx *store.Tx) error {
			_, err := h.moveContainer(tx, "x", lifecycle.Claimed, func(c *store.Container) error { c.ID = "x"; return nil })
			return err
		},
		"process": func(tx *store.Tx) error {
			_, err := processLife.move(tx, "x", lifecycle.Claimed, func(p *store.Process) error { p.ID = "x"; return nil })
			return err
		},
		"run": func(tx *store.Tx) error {
			_, err := runLife.move(tx, "x", lifecycle.Begun, func(r *store.Run) error { r.ID = "x"; return nil })
			return err
		},
	}
	for kind, move := range moves {
		for way, update := range map[string]func(d store.Durability) error{
			"update":  func(d store.Durability) error { return h.store.Update(t.Context(), d, undone(move)) },
			"release": func(d store.Durability) error { return h.store.Release(t.Context(), d, undone(move)) },
		} {
			err := update(store.KillSafe)
			if late, ok := errors.AsType[*careless](err); !ok || late.kind != kind || late.id != "x" {
				t.Errorf("the claim of a %s in an %s that a loss of power may undo: %v", kind, way, err)
			}
			if err := update(store.PowerSafe); !errors.Is(err, errUndone) {
				t.Errorf("the claim of a %s in an %s that waits for the disk: %v", kind, way, err)
			}
		}
	}
	for _, table := range []*lifecycle.Table{&lifecycle.Containers, &lifecycle.Processes, &lifecycle.Runs} {
		for _, l := range table.Lines { // what makes the row is the claim
			if first := slices.Contains(l.From, lifecycle.None) && l.To != lifecycle.Stays && l.To != lifecycle.None; first != slices.Contains(table.PowerSafe, l.Event) {
				t.Errorf("%s: that it is %s survives a loss of power: %v", table.Kind, l.Event, !first)
			}
		}
	}
}

var errUndone = errors.New("undone")

// undone has a transaction do something and then come to nothing.
func undone(do func(*store.Tx) error) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		return errUndone
	}
}
