package claim

import (
	"archive/tar"
	"context"
	"errors"

	"github.com/slipway-run/slipway/sdk"
)

var errEnough = errors.New("seen enough")

// headers reads the headers of a path without links in it. An error of entry ends that and comes back.
func (s *Store) headers(ctx context.Context, v Volume, path string, entry func(*tar.Header) error) error {
	ctx, dog := s.watch(ctx)
	defer dog.end()
	body, err := s.fetch(ctx, dog, v, path, encodingZstd)
	if err != nil {
		return err
	}
	defer body.Close()
	d, free, err := s.codecs.decoder(encodingZstd, body)
	if err != nil {
		return err
	}
	defer free()
	var own error
	err = walk(d, func(h *tar.Header) error {
		own = entry(h)
		return own
	})
	switch {
	case err == nil, own != nil:
		return own
	case body.cut || ctx.Err() != nil:
		return s.lost(ctx, v.ID, s.unreachable(ctx, "looking through volume "+quote(v.ID), err))
	case v.State != sdk.VolumeSealed: // tar gives up on what changes under it, also by an archive that was cut and that the server still unpacks
		return s.lost(ctx, v.ID, sdk.NewUnavailable(err, "baggageclaim %s: volume %q changed while it was looked through, or the server failed: ask again (%v)", s.url, v.ID, err))
	}
	return s.lost(ctx, v.ID, sdk.NewInternal(err, "baggageclaim %s: looking through volume %q: the server failed on the way: %v", s.url, v.ID, err))
}

// first gives the first header of a path.
func (s *Store) first(ctx context.Context, v Volume, path string) (*tar.Header, error) {
	var first *tar.Header
	err := s.headers(ctx, v, path, func(h *tar.Header) error {
		first = h
		return errEnough
	})
	if err == errEnough {
		err = nil
	}
	return first, err
}

// readRoot tells what the root directory is.
func (s *Store) readRoot(ctx context.Context, v Volume) (root, error) {
	h, err := s.first(ctx, v, "")
	if err != nil {
		return root{}, err
	}
	if h == nil || h.Typeflag != tar.TypeDir {
		return root{}, sdk.NewInternal(nil, "baggageclaim %s: volume %q does not begin with its root directory", s.url, v.ID)
	}
	return root{known: true, uid: int64(h.Uid), gid: int64(h.Gid), mode: h.Mode & 0o7777}, nil
}

// isDir tells whether a path without links in it is a directory.
func (s *Store) isDir(ctx context.Context, v Volume, path string) (bool, error) {
	h, err := s.first(ctx, v, path)
	if sdk.IsNotFound(err, sdk.KindFile) { // or a directory on the way is none
		return false, nil
	}
	return h != nil && h.Typeflag == tar.TypeDir, err
}

// linksOf tells the symbolic links of a volume, never nil. Unless they are known, the whole volume comes over the wire for that: so it
// is for what a container has written, when the host puts more into it or takes a part out. Of a sealed volume that happens once.
func (s *Store) linksOf(ctx context.Context, v Volume) (*links, error) {
	known, parent := s.memo.get(v.ID)
	if known != nil {
		return known, nil
	}
	if parent != "" {
		of, err := s.volume(ctx, parent)
		if err == nil {
			if known, err = s.linksOf(ctx, of); err == nil {
				return known, nil
			}
		}
		if !sdk.IsNotFound(err, sdk.KindVolume) {
			return nil, err
		}
	}
	if v.State != sdk.VolumeSealed {
		return s.lookThrough(ctx, v)
	}
	unlock, err := s.looks.exclusive(ctx, v.ID) // of many who want to know at a time, one looks
	if err != nil {
		return nil, err
	}
	defer unlock()
	if known, _ = s.memo.get(v.ID); known != nil {
		return known, nil
	}
	if known, err = s.lookThrough(ctx, v); err == nil {
		s.memo.put(v.ID, known)
	}
	return known, err
}

// lookThrough reads all names of a volume for its links.
func (s *Store) lookThrough(ctx context.Context, v Volume) (*links, error) {
	e := edit(&links{})
	err := s.headers(ctx, v, "", func(h *tar.Header) error { return e.note("", h) })
	if err != nil {
		if errors.Is(err, sdk.ReasonArchive) {
			err = sdk.NewInternal(err, "baggageclaim %s: looking through volume %q: %v", s.url, v.ID, err)
		}
		return nil, err
	}
	return e.links(), nil
}

// place resolves a path, and tells whether it is a link itself.
func (s *Store) place(ctx context.Context, v Volume, path string) (string, bool, error) {
	known, err := s.linksOf(ctx, v)
	if err != nil {
		return "", false, err
	}
	path, err = known.resolve(path)
	_, isLink := known.at[path]
	return path, isLink, err
}
