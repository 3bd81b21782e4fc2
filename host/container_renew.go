package host

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
)

// An owner is the key under which work is done once: who asks again under it finds what was done, though the container is over. So it gets another container only where
// nothing can be done twice in that: its owner has removed the first one, or nothing was ever started in it.

// over tells whether a container will take no process any more.
func over(state string) bool {
	return state == lifecycle.ContainerDestroying || state == lifecycle.ContainerDestroyed || state == lifecycle.ContainerLost
}

// giveWay tells whether the owner of a container that is over gets another one in its place. If it does, the first one is gone from its worker when this returns: an
// owner never has two. The error says why it cannot be had for now.
func (h *Host) giveWay(ctx context.Context, c *Container) (bool, error) {
	if !over(c.state) {
		return false, nil
	}
	var row store.Container
	var anew bool
	err := h.store.View(ctx, func(tx *store.Tx) (err error) {
		if row, err = tx.Container(string(c.id)); err != nil {
			return err
		}
		anew, err = mayGiveWay(tx, row)
		return err
	})
	if err != nil || !anew || row.State != lifecycle.ContainerDestroying {
		return anew, err
	}
	if err := h.awaitGoneThough(ctx, row.Worker, containerThing(row.ID)); err != nil {
		return false, fmt.Errorf("its last container is being removed: %w", err)
	}
	return true, nil
}

// mayGiveWay tells whether nothing would be done twice if the owner of a container that is over, or about to be, got another one. One that was removed, and of which
// artifacts are left, is a *GoneError: what the next one leaves would have the same names.
func mayGiveWay(tx *store.Tx, row store.Container) (bool, error) {
	removed, err := wasRemoved(row)
	if err != nil {
		return false, err
	}
	if !removed {
		begun, err := tx.Processes(store.ProcessFilter{Container: row.ID})
		if err != nil || len(begun) > 0 {
			return false, err
		}
	}
	kept, err := tx.Artifacts(store.ArtifactFilter{OwnerPrefix: row.Owner})
	if err != nil {
		return false, err
	}
	var names []string
	for _, a := range kept {
		if a.Owner == row.Owner {
			names = append(names, a.Name)
		}
	}
	if removed && len(names) > 0 {
		return false, &GoneError{Owner: row.Owner, State: row.State, Left: names}
	}
	return len(names) == 0, nil
}

func wasRemoved(row store.Container) (bool, error) {
	var kept containerRecord
	if err := json.Unmarshal(row.Spec, &kept); err != nil {
		return false, fmt.Errorf("record of container %s: %w", row.ID, err)
	}
	return kept.Removed, nil
}

// noteRemoved notes in a container's row that its owner has removed it.
func noteRemoved(row *store.Container) error {
	var kept containerRecord
	err := json.Unmarshal(row.Spec, &kept)
	if err == nil {
		kept.Removed = true
		row.Spec, err = json.Marshal(kept)
	}
	if err != nil {
		return fmt.Errorf("record of container %s: %w", row.ID, err)
	}
	return nil
}

// makeWay takes the owner from a container that is over, in the transaction that claims the next one: there is always one that is found. What ran in it is remembered as
// long as that of others, under no owner. The volumes that it has left go: who seals it now gets no outputs, for those of the next one have the same names.
func (h *Host) makeWay(tx *store.Tx, owner string) error {
	row, err := tx.ContainerByOwner(owner)
	if err != nil {
		return ignoreNotFound(err)
	}
	anew, err := mayGiveWay(tx, row)
	if err == nil && !anew { // its outputs have become artifacts since it was looked at
		err = &GoneError{Owner: owner, State: row.State}
	}
	if err != nil {
		return err
	}
	if _, err = h.moveContainer(tx, row.ID, lifecycle.Renewed, func(row *store.Container) error {
		row.Owner = ""
		return nil
	}); err != nil {
		return err
	}
	_, err = h.doomVolumes(tx, row.ID)
	return err
}

// State is what had become of the container when it was found: creating, ready, destroying, destroyed or lost. In one that is neither creating nor ready nothing can be
// started; what ran in it can still be asked for.
func (c *Container) State() string { return c.state }
