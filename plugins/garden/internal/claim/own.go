package claim

import (
	"context"
	"crypto/rand"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/concourse/baggageclaim"

	"github.com/slipway-run/slipway/sdk"
)

// Own describes a volume that the plugin makes for a container.
type Own struct {
	// Handle is the container's id, a dot, and a word, such as "x.root": no id of a host has a dot. What is before the dot is the value of
	// OwnProperty, unless Properties has it.
	Handle string

	// At most one of the sources; with none, it begins empty.
	Clone  string // a sealed volume, by id or handle
	Import string // a path on the server; the plugin's own business, so Config.Imports does not matter

	Shared     bool // the caller has Clone by Share: to take its lock again would be to wait for whoever waits for the caller
	Privileged bool
	UID, GID   int64 // of the root directory
	Mode       int64 // of the root directory; zero: as the source has it, or 0755
	Properties map[string]string
}

// Make makes a volume of the plugin's own. One that is there whole is kept, one that is half made is completed.
func (s *Store) Make(ctx context.Context, o Own) (Volume, error) {
	owner, _, ok := strings.Cut(o.Handle, ".")
	if !ok {
		return Volume{}, sdk.NewInternal(nil, "handle %q has no dot: a host may use it", o.Handle)
	}
	parent := o.Clone
	if o.Shared {
		parent = ""
	}
	unlock, err := s.locks.both(ctx, o.Handle, parent)
	if err != nil {
		return Volume{}, err
	}
	defer unlock()
	v, ok, err := s.get(ctx, o.Handle)
	if err != nil || ok && v.State != sdk.VolumeCreating {
		return v, err
	}
	m := making{handle: o.Handle, strategy: baggageclaim.EmptyStrategy{}, privileged: o.Privileged}
	if o.Import != "" {
		m.strategy = baggageclaim.ImportStrategy{Path: o.Import}
	}
	m.properties = baggageclaim.VolumeProperties{propOwn: owner, propState: stateMaking, propRoot: root{}.String()}
	if o.Clone != "" {
		m.properties[propParent] = o.Clone
	}
	maps.Copy(m.properties, o.Properties)
	if !ok {
		if v, err = s.makeFrom(ctx, m, o.Clone); err != nil {
			return Volume{}, err
		}
	}
	want := root{known: true, uid: o.UID, gid: o.GID, mode: o.Mode}
	if want.mode == 0 {
		want.mode = -1
	}
	if err := s.giveRoot(ctx, v, want, o.Clone == "" && o.Import == ""); err != nil {
		return Volume{}, err
	}
	v.State = sdk.VolumeOpen
	return v, s.set(ctx, v.ID, propState, stateOpen)
}

// Base describes a sealed volume that containers clone.
type Base struct {
	Key        string // what is in it, such as "shim/" and a checksum
	Privileged bool   // as in VolumeSpec; volumes of both kinds may have one key

	// What is in it: one of these.
	Import string                                        // a path on the server; the plugin's own business, so Config.Imports does not matter
	Fill   func(put func(archive io.Reader) error) error // calls put with raw tar archives; its own errors come back unchanged
}

// Base gives the sealed volume under a key, and makes it where there is none. If two make it at once, all use the one with the smallest handle.
func (s *Store) Base(ctx context.Context, b Base) (Volume, error) {
	key := b.Key
	if b.Privileged {
		key += " privileged"
	}
	unlock, err := s.locks.exclusive(ctx, "base "+key)
	if err != nil {
		return Volume{}, err
	}
	defer unlock()
	if v, ok, err := s.base(ctx, key); err != nil || ok {
		return v, err
	}
	m := making{
		handle: "slipway.base." + strings.ToLower(rand.Text()), strategy: baggageclaim.EmptyStrategy{}, privileged: b.Privileged,
		properties: baggageclaim.VolumeProperties{
			propOwn: ownShared, propState: stateMaking, propRoot: root{}.String(), propBase: key, propMade: now(),
		},
	}
	if b.Import != "" {
		m.strategy = baggageclaim.ImportStrategy{Path: b.Import}
	}
	if err := s.fillBase(ctx, m, b); err != nil {
		tidyCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidy)
		defer cancel()
		if err := s.remove(tidyCtx, m.handle); err != nil {
			s.log.Warn("a half-made shared volume is left on the server, for an hour at least", "volume", m.handle, "key", key, "error", err)
		}
		return Volume{}, err
	}
	v, ok, err := s.base(ctx, key)
	if err == nil && !ok {
		err = sdk.NewUnavailable(nil, "baggageclaim %s: the volume for %q was destroyed at once; does somebody else use this server?", s.url, key)
	}
	return v, err
}

func (s *Store) fillBase(ctx context.Context, m making, b Base) error {
	v, err := s.makeFrom(ctx, m, "")
	if err != nil {
		return err
	}
	if b.Fill != nil {
		err := b.Fill(func(archive io.Reader) error { return s.putRaw(ctx, v, "", archive) })
		if err != nil {
			return err
		}
	}
	return s.set(ctx, v.ID, propState, stateSealed)
}

// base finds the volume under a key. What it found once it looks up by its handle, for listing costs as much as the server has volumes.
func (s *Store) base(ctx context.Context, key string) (Volume, bool, error) {
	if handle := s.found.base(key); handle != "" {
		v, ok, err := s.get(ctx, handle)
		if err != nil || ok {
			return v, ok, err
		}
	}
	var found Volume
	err := s.list(ctx, map[string]string{propBase: key}, func(v Volume) error {
		if v.State == sdk.VolumeSealed && (found.ID == "" || v.ID < found.ID) {
			found = v
		}
		return nil
	})
	if err != nil {
		return Volume{}, false, err
	}
	if found.ID != "" {
		s.found.setBase(key, found.ID)
	}
	return found, found.ID != "", nil
}

// Put unpacks a raw tar archive below a path of one of the plugin's own volumes, or of another open one. As in StreamIn, nothing outside the
// volume changes, whatever is in it.
func (s *Store) Put(ctx context.Context, handle, path string, archive io.Reader) error {
	return s.streamIn(ctx, handle, sdk.StreamIn{Path: path}, archive)
}

// putRaw is Put into a volume that is half made.
func (s *Store) putRaw(ctx context.Context, v Volume, path string, archive io.Reader) error {
	known, err := s.linksOf(ctx, v)
	if err != nil {
		return err
	}
	return s.feed(ctx, ctx, v, path, sdk.EncodingRaw, edit(known), archive, func() {})
}

// Out writes a path of any volume as a raw tar archive, as StreamOut does.
func (s *Store) Out(ctx context.Context, handle, path string, w io.Writer) error {
	return s.streamOut(ctx, handle, sdk.StreamOut{Path: path}, w)
}

// IsDir tells whether a path of a volume is a directory. A link is none; links on the way stay inside the volume.
func (s *Store) IsDir(ctx context.Context, handle, path string) (bool, error) {
	path, err := insidePath(path)
	if err != nil {
		return false, err
	}
	v, err := s.volume(ctx, handle)
	if err != nil || path == "" {
		return err == nil, err
	}
	path, isLink, err := s.place(ctx, v, path)
	if err != nil || isLink {
		return false, err
	}
	return s.isDir(ctx, v, path)
}

// Lookup tells of any volume of this plugin's making. It says false where there is none.
func (s *Store) Lookup(ctx context.Context, handle string) (Volume, bool, error) {
	return s.get(ctx, handle)
}

// SetProperty changes or adds a property. Values of one length are best, see above: put a first one into Own.Properties.
func (s *Store) SetProperty(ctx context.Context, handle, name, value string) error {
	return s.set(ctx, handle, name, value)
}

// Remove destroys volumes in one call. Those that are not there are no error.
func (s *Store) Remove(ctx context.Context, handles ...string) error {
	if len(handles) == 0 {
		return nil
	}
	handles = slices.Compact(slices.Sorted(slices.Values(handles)))
	for _, h := range handles {
		unlock, err := s.locks.destroy(ctx, h, sdk.NewNotFound(sdk.KindVolume, h))
		if err != nil {
			return err
		}
		defer unlock()
		s.memo.drop(h)
		// What is still being made is not there to be destroyed.
		if s.found.isPending(h) {
			if err := s.remove(ctx, h); err != nil {
				return err
			}
			s.found.settled(h)
		}
	}
	what := "destroying volumes " + quote(strings.Join(handles, " "))
	a, err := s.call(ctx, request{what: what, route: baggageclaim.DestroyVolumes, body: handles, slow: true})
	switch {
	case err != nil:
		return err
	case a.code == http.StatusNoContent:
		return nil
	case a.code != http.StatusInternalServerError:
		return s.refused(what, a)
	}
	for _, h := range handles { // it has tried all, and does not say which it could not destroy
		if _, err := s.destroy(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// RemoveOwn destroys all that the plugin made for a container which is never made again. Of the named handles it also gives up what the server is
// still making for a plugin that was killed.
func (s *Store) RemoveOwn(ctx context.Context, container sdk.ContainerID, named ...string) error {
	own, err := s.OwnOf(ctx, container)
	if err != nil {
		return err
	}
	for _, h := range named {
		s.found.left(h)
	}
	return s.Remove(ctx, append(own, named...)...)
}

// OwnOf gives the handles of the volumes that the plugin made for a container. The server looks at every volume it has for that.
func (s *Store) OwnOf(ctx context.Context, container sdk.ContainerID) ([]string, error) {
	var own []string
	err := s.list(ctx, map[string]string{OwnProperty: string(container)}, func(v Volume) error {
		own = append(own, v.ID)
		return nil
	})
	return own, err
}

// Owned lists the volumes that the plugin made for containers, with the given labels (Own.Properties).
func (s *Store) Owned(ctx context.Context, labels map[string]string) ([]Volume, error) {
	var own []Volume
	err := s.list(ctx, labels, func(v Volume) error {
		if v.own != "" && v.own != ownShared {
			own = append(own, v)
		}
		return nil
	})
	return own, err
}
