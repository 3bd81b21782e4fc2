//go:build linux

package volumedir

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shelf"
	"github.com/slipway-run/slipway/sdk/volumetar"
)

// Options of a Store. The zero value is for a worker without containers.
type Options struct {
	// Quiesce has every container that can write a volume start no process any more, for good. It is an error with [sdk.ReasonInUse], and
	// nothing changes, where a process lives in one. What has no keeper left is no hindrance. Nil: no container writes volumes.
	Quiesce func(ctx context.Context, id sdk.VolumeID) error

	Privileged bool // VolumeSpec.Privileged is taken, and means nothing; else it is Unsupported

	// Archives says how they are taken. A plugin that is not root must drop owners; those of volumes then count for nothing, too.
	Archives volumetar.Options
}

// Store is the volumes of one worker. Its methods may be called from many goroutines at once, and those of [sdk.Worker] and
// [sdk.FileReader] are as there.
type Store struct {
	o           Options
	shelf       *shelf.Shelf[record]
	incarnation string
}

// record is what is kept of a volume beside its files.
type record struct {
	Token  sdk.Token
	Labels map[string]string `json:",omitempty"`
	Parent sdk.VolumeID      `json:",omitempty"`
	State  sdk.VolumeState
}

const (
	dataDir   = "data"  // of a volume: its files
	filesLock = "files" // of a volume: shared by archives that come in, held alone by sealing
)

// Open opens a store, and makes its directory where missing. It takes away what a killed process left half done, which ctx bounds.
// Whoever uses the store may just forget it in the end.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	s := &Store{o: o}
	var err error
	if s.shelf, err = shelf.Open[record](dir); err != nil {
		return nil, err
	}
	if s.incarnation, err = incarnation(dir); err != nil {
		return nil, err
	}
	return s, s.shelf.Sweep(ctx)
}

// incarnation gives the store the id that it was made with.
func incarnation(dir string) (string, error) {
	path := filepath.Join(dir, ".incarnation")
	id, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		made := path + "-" + rand.Text()
		if err := shelf.WriteFile(made, []byte(rand.Text())); err != nil {
			return "", err
		}
		defer os.Remove(made)
		if err := os.Link(made, path); err != nil && !errors.Is(err, fs.ErrExist) { // whoever is first wins
			return "", err
		}
		id, err = os.ReadFile(path)
	}
	return string(id), err
}

// Incarnation is the id of the store, made with its directory (rule 4).
func (s *Store) Incarnation() string { return s.incarnation }

// Dir is the directory of a volume's files. The id must be one of the contract's; whether there is such a volume, Share tells.
func (s *Store) Dir(id sdk.VolumeID) string { return s.shelf.Path(string(id), dataDir) }

// Features tells what archives keep here, as [volumetar.Root.Features], and [sdk.FeatureFileRead].
func (s *Store) Features() ([]sdk.Feature, error) {
	probe := filepath.Join(s.shelf.Dir(), ".features-"+rand.Text())
	if err := os.Mkdir(probe, 0o700); err != nil {
		return nil, Fault(err, sdk.KindVolume, "")
	}
	defer os.Remove(probe)
	root, err := volumetar.Open(probe, s.o.Archives)
	if err != nil {
		return nil, Fault(err, sdk.KindVolume, "")
	}
	defer root.Close()
	features, err := root.Features()
	return append(features, sdk.FeatureFileRead), err
}

// Count tells how many volumes there are, half-made ones included.
func (s *Store) Count() (int64, error) {
	var n int64
	err := s.shelf.Each(func(string, record) error { n++; return nil })
	return n, Fault(err, sdk.KindVolume, "")
}

// Volume is a volume that is shared.
type Volume struct {
	State sdk.VolumeState // open or sealed
	Dir   string          // its files
}

// Share keeps volumes from being sealed and destroyed until unlock is called, once. A volume that is not there is NotFound, one that is half
// made FailedPrecondition with [sdk.ReasonCreating]; then none is held.
func (s *Store) Share(ctx context.Context, ids ...sdk.VolumeID) (volumes map[sdk.VolumeID]Volume, unlock func(), err error) {
	volumes = make(map[sdk.VolumeID]Volume)
	var unlocks []func()
	unlockAll := func() {
		for _, unlock := range unlocks {
			unlock()
		}
	}
	ids = slices.Clone(ids)
	slices.SortFunc(ids, cmp.Compare[sdk.VolumeID]) // an order that all callers have in common
	for _, id := range slices.Compact(ids) {
		unlock, rec, err := s.share(ctx, id)
		if err != nil {
			unlockAll()
			return nil, nil, err
		}
		unlocks = append(unlocks, unlock)
		volumes[id] = Volume{State: rec.State, Dir: s.Dir(id)}
	}
	return volumes, unlockAll, nil
}

func (s *Store) share(ctx context.Context, id sdk.VolumeID) (unlock func(), rec record, err error) {
	if err := sdk.CheckID(sdk.KindVolume, string(id)); err != nil {
		return nil, record{}, err
	}
	unlock, err = s.shelf.Lock(ctx, string(id), shelf.Shared)
	if err != nil {
		return nil, record{}, missing(err, id)
	}
	if rec, err = s.shelf.Read(string(id)); err == nil && rec.State == sdk.VolumeCreating {
		err = halfMade(id)
	}
	if err != nil {
		unlock()
		return nil, record{}, missing(err, id)
	}
	return unlock, rec, nil
}

func halfMade(id sdk.VolumeID) error {
	return sdk.NewFailedPrecondition(sdk.ReasonCreating, sdk.KindVolume, string(id), "volume %q is half made; create it again or destroy it", id)
}

// missing makes an error of the contract from why a record could not be had.
func missing(err error, id sdk.VolumeID) error {
	if errors.Is(err, fs.ErrNotExist) {
		return sdk.NewNotFound(sdk.KindVolume, string(id))
	}
	return Fault(err, sdk.KindVolume, string(id))
}

// Fault makes an error of the contract of what went wrong on a disk: Exhausted where there is no room, else Internal. Nil, errors of the
// contract and those of contexts stay as they are.
func Fault(err error, kind sdk.Kind, id string) error {
	_, ours := errors.AsType[*sdk.Error](err)
	switch {
	case err == nil, ours, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return sdk.NewExhausted(sdk.ReasonStorage, "%s %q: %v; make room on that disk", kind, id, err)
	}
	return sdk.NewInternal(err, "%s %q: %v", kind, id, err)
}

var _ sdk.FileReader = (*Store)(nil)
