package host

import (
	"errors"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// Each volume of a worker has a holder: what its owner goes by where it has one, and no empty name where it has none.
func TestHolderOfAVolume(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	undo := errors.New("undo")
	err := h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error {
		now := time.Now()
		for _, c := range []store.Container{
			{ID: "c-ready", Owner: "o", State: lifecycle.ContainerReady, Spec: []byte("{}")},
			{ID: "c-kept", Owner: "k", State: lifecycle.ContainerReady, Spec: []byte(`{"Kept":true}`)},
			{ID: "c-disowned", State: lifecycle.ContainerDestroying, Spec: []byte("{}")},
		} {
			c.Worker, c.Token, c.CreatedAt, c.UpdatedAt = "m", "t"+c.ID, now, now
			if err := tx.PutContainer(c); err != nil {
				return err
			}
		}
		for _, a := range []store.Artifact{
			{ID: "a-plain", Name: "upload/x"},
			{ID: "a-cache", Name: cachePrefix + "a-cache", Key: TaskCacheKey("", "j", "s", "p")},
			{ID: "a-older", Name: cachePrefix + "a-older", Key: supersededKey(TaskCacheKey("", "j", "s", "p"))},
		} {
			a.CreatedAt, a.UsedAt = now, now
			if err := tx.PutArtifact(a); err != nil {
				return err
			}
		}
		for _, tt := range []struct {
			v    store.Volume
			want pool.Holder
			why  string
		}{
			{store.Volume{Container: "c-ready"}, pool.Holder{Owner: "o"}, ""},
			{store.Volume{Container: "c-kept"}, pool.Holder{Owner: "k"}, "kept since its command failed"},
			{store.Volume{Container: "c-disowned"}, pool.Holder{Going: true}, ""},
			{store.Volume{Container: "c-gone"}, pool.Holder{Going: true}, ""},
			{store.Volume{Artifact: "a-plain"}, pool.Holder{Artifact: "upload/x"}, ""},
			{store.Volume{Artifact: "a-cache"}, pool.Holder{Cache: "task:/j/s/p"}, ""},
			{store.Volume{Artifact: "a-older"}, pool.Holder{Cache: "task:/j/s/p"}, ""},
			{store.Volume{Artifact: "a-gone"}, pool.Holder{Going: true}, ""},
			{store.Volume{Artifact: "a-plain", State: lifecycle.VolumeDestroying}, pool.Holder{Going: true}, ""},
			{store.Volume{}, pool.Holder{}, ""},
		} {
			if got, why, err := h.holder(tx, tt.v); got != tt.want || why != tt.why || err != nil {
				t.Errorf("%+v is held by %v (%q), %v; want %v (%q)", tt.v, got, why, err, tt.want, tt.why)
			}
		}
		return undo
	})
	if !errors.Is(err, undo) {
		t.Error(err)
	}
}

// TestRoomOnDiskTellsWhy: that there may be room on the host's disk has a copy be tried again, and who waits for it is told still why it could not be made.
func TestRoomOnDiskTellsWhy(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	full := sdk.NewExhausted(sdk.ReasonStorage, "the disk is full")
	if !h.rooms.begin("a") {
		t.Fatal("it cannot be copied")
	}
	h.rooms.end("a", full)
	if !h.rooms.pauses("a") {
		t.Error("it is tried again at once")
	}
	h.roomOnDisk()
	h.rooms.nextLook()
	if err := h.rooms.failed("a"); err != full || h.rooms.pauses("a") {
		t.Errorf("it could not be copied for %v, and is tried again: %t", err, !h.rooms.pauses("a"))
	}
}
