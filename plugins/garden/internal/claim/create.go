package claim

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/concourse/baggageclaim"

	"github.com/slipway-run/slipway/sdk"
)

// copyOf is the strategy of a clone. That of the client's package wants a volume of that client.
type copyOf string

// Encode is that of baggageclaim.Strategy.
func (c copyOf) Encode() *json.RawMessage {
	b, _ := json.Marshal(map[string]string{"type": "cow", "volume": string(c)}) // strings always can be
	return (*json.RawMessage)(&b)
}

// CreateVolume is that of [sdk.Worker].
func (s *Store) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	id := string(spec.ID)
	m := making{handle: id, strategy: baggageclaim.EmptyStrategy{}, properties: properties(spec), privileged: spec.Privileged}
	if spec.Import != "" {
		if len(s.config.Imports) == 0 {
			return sdk.NewUnsupported(sdk.FeatureVolumeImport)
		}
		path, err := s.importPath("volume "+quote(id), spec.Import)
		if err != nil {
			return err
		}
		m.strategy = baggageclaim.ImportStrategy{Path: path}
	}
	if spec.Clone == spec.ID {
		return sdk.NewNotFound(sdk.KindVolume, id) // what is being made is not there yet
	}
	unlock, err := s.locks.both(ctx, id, string(spec.Clone))
	if err != nil {
		return err
	}
	defer unlock()
	v, ok, err := s.get(ctx, id)
	switch {
	case err != nil:
		return err
	case ok && v.token != string(spec.Token):
		return sdk.NewAlreadyExists(sdk.KindVolume, id)
	case ok && v.State != sdk.VolumeCreating:
		return nil
	case !ok:
		if v, err = s.makeFrom(ctx, m, string(spec.Clone)); err != nil {
			return err
		}
		if v.token != string(spec.Token) {
			return sdk.NewAlreadyExists(sdk.KindVolume, id)
		}
	}
	keep := root{known: true, uid: spec.UID, gid: spec.GID, mode: -1}
	if err := s.giveRoot(ctx, v, keep, spec.Clone == "" && spec.Import == ""); err != nil {
		return s.lost(ctx, id, err)
	}
	return s.set(ctx, id, propState, stateOpen)
}

// makeFrom has the server make a volume, as a clone of a sealed one where a parent is named. The caller holds the locks of both.
func (s *Store) makeFrom(ctx context.Context, m making, parent string) (Volume, error) {
	if parent != "" {
		v, err := s.volume(ctx, parent)
		if err != nil {
			return Volume{}, err
		}
		if v.State != sdk.VolumeSealed {
			return Volume{}, sdk.NewFailedPrecondition(sdk.ReasonNotSealed, sdk.KindVolume, parent, "volume %q cannot be cloned before it is sealed", parent)
		}
		m.strategy = cloneOf(v)
	}
	v, err := s.make(ctx, m)
	if err != nil {
		return Volume{}, s.whyNotMade(ctx, m, parent, err)
	}
	if parent != "" {
		s.memo.clone(v.ID, parent)
	} else if (m.strategy == baggageclaim.EmptyStrategy{}) {
		s.memo.put(v.ID, &links{})
	}
	return v, nil
}

// cloneOf is how a volume is cloned. A server with the overlay driver copies, when it is started anew, the files that a clone has changed over those of the
// clone's own clones, whatever they had made of them. So there are none: what is cloned of a clone is a copy.
func cloneOf(v Volume) baggageclaim.Strategy {
	if v.parent == "" {
		return copyOf(v.ID)
	}
	return baggageclaim.ImportStrategy{Path: v.Path}
}

// whyNotMade finds out what the server does not say: whether the request could not be fulfilled or the disk is full.
func (s *Store) whyNotMade(ctx context.Context, m making, parent string, err error) error {
	if err == errNoParent {
		return sdk.NewNotFound(sdk.KindVolume, parent)
	}
	refusal, ok := errors.AsType[*notMade](err)
	if !ok {
		if err == errNotMaking {
			return sdk.NewUnavailable(nil, "baggageclaim %s: making volume %q: the server does not know of it any more; it was started anew, or somebody destroyed the volume", s.url, m.handle)
		}
		return err
	}
	if parent != "" {
		if _, there, err := s.get(ctx, parent); err != nil {
			return err
		} else if !there {
			return sdk.NewNotFound(sdk.KindVolume, parent)
		}
	}
	if err := s.tryRoom(ctx); err != nil {
		return err
	}
	if i, ok := m.strategy.(baggageclaim.ImportStrategy); ok && parent == "" {
		return sdk.NewInvalid(sdk.ReasonPath, "volume %q: the path to import %q is not there on the server, or is neither a directory nor a gzipped tar archive (%v)",
			m.handle, i.Path, refusal.error)
	}
	return refusal.error
}

// giveRoot gives the root directory its owner and, unless that is -1, its mode; else that of its source. The server has no call for that;
// an archive with one entry does it. The server walks through the whole volume before it unpacks anything, so this is left out where
// nothing changes.
func (s *Store) giveRoot(ctx context.Context, v Volume, want root, empty bool) error {
	fresh := root{known: true, mode: 0o755} // of an empty volume; and of a first clone on the overlay driver, whatever its parent has
	is := fresh
	if !empty {
		var err error
		if is, err = s.sourceRoot(ctx, v); err != nil {
			return err
		}
	}
	if want.mode < 0 {
		want.mode = is.mode
	}
	if is == want && (v.parent == "" || want == fresh) {
		return nil
	}
	h := &tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: want.mode, Uid: int(want.uid), Gid: int(want.gid), ModTime: time.Now(), Format: tar.FormatPAX}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.WriteHeader(h), w.Close()); err != nil {
		return sdk.NewInternal(err, "volume %q: %v", v.ID, err)
	}
	err := s.put(ctx, v.ID, "", b.Bytes())
	if errors.Is(err, errBadStream) {
		return sdk.NewInvalid(sdk.ReasonSpec, "volume %q: the server cannot give its root to %d:%d", v.ID, want.uid, want.gid)
	}
	return err
}

// sourceRoot tells what root directory the volume's source had.
func (s *Store) sourceRoot(ctx context.Context, v Volume) (root, error) {
	if v.parent == "" {
		return s.readRoot(ctx, v)
	}
	parent, ok, err := s.get(ctx, v.parent)
	if err != nil || ok && parent.root.known {
		return parent.root, err
	}
	if !ok { // the clone was half made when its parent went
		return s.readRoot(ctx, v)
	}
	is, err := s.readRoot(ctx, parent)
	if err == nil {
		err = s.set(ctx, parent.ID, propRoot, is.String()) // all its clones begin with it
	}
	if sdk.IsNotFound(err, sdk.KindVolume) {
		return s.readRoot(ctx, v)
	}
	return is, err
}

// lost puts NotFound of a volume that went under a call in the place of what the call met.
func (s *Store) lost(ctx context.Context, id string, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	if _, ok, getErr := s.get(ctx, id); getErr == nil && !ok {
		return sdk.NewNotFound(sdk.KindVolume, id)
	}
	return err
}

func halfMade(id string) error {
	return sdk.NewFailedPrecondition(sdk.ReasonCreating, sdk.KindVolume, id, "volume %q is half made; create it again or destroy it", id)
}
