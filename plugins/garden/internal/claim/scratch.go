package claim

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/concourse/baggageclaim"

	"github.com/slipway-run/slipway/sdk"
)

// tidy bounds what is done after a call has ended.
const tidy = 30 * time.Second

// scratch makes an empty volume for use and destroys it again.
func (s *Store) scratch(ctx context.Context, use func(Volume) error) error {
	handle := "slipway.scratch." + strings.ToLower(rand.Text())
	m := making{handle: handle, strategy: baggageclaim.EmptyStrategy{}, properties: baggageclaim.VolumeProperties{propOwn: ownShared, propState: stateMaking, propMade: now()}}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidy)
		defer cancel()
		if err := s.remove(ctx, handle); err != nil {
			s.log.Warn("a scratch volume is left on the server", "volume", handle, "error", err)
		}
	}()
	v, err := s.make(ctx, m)
	if err != nil {
		return err
	}
	return use(v)
}

// sweep takes away what plugins that were killed have left of scratch and of half-made shared volumes.
func (s *Store) sweep(ctx context.Context) error {
	var stale []string
	err := s.list(ctx, map[string]string{propOwn: ownShared}, func(v Volume) error {
		if v.stale() {
			stale = append(stale, v.ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.Remove(ctx, stale...); err != nil {
		s.log.Warn("volumes of plugins that were killed are left on the server", "volumes", stale, "error", err)
	}
	return ctx.Err()
}

// halfMadeAge is when a shared volume that nobody has completed is nobody's.
const halfMadeAge = time.Hour

// stale tells whether nobody will complete or remove a volume that is shared.
func (v Volume) stale() bool {
	made, err := strconv.ParseInt(v.made, 10, 64)
	return err == nil && v.own == ownShared && v.State == sdk.VolumeCreating && time.Since(time.Unix(made, 0)) > halfMadeAge
}

// now is the time as propMade has it.
func now() string { return strconv.FormatInt(time.Now().Unix(), 10) }

// tryRoom is Exhausted if the server has no room for a little file. The server does not tell a full disk from other trouble.
func (s *Store) tryRoom(ctx context.Context) error {
	const room = 1 << 20
	data := make([]byte, room)
	rand.Read(data) // so that no file system makes it smaller
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: "room", Mode: 0o600, Size: room})
	_, err2 := w.Write(data)
	if err := errors.Join(err, err2, w.Close()); err != nil {
		return sdk.NewInternal(err, "looking for room: %v", err)
	}
	err = s.scratch(ctx, func(v Volume) error { return s.put(ctx, v.ID, "", b.Bytes()) })
	_, notMade := errors.AsType[*notMade](err)
	if notMade || errors.Is(err, errBadStream) {
		return sdk.NewExhausted(sdk.ReasonStorage, "baggageclaim %s: there is no room for a file of 1 MiB; make room on the server's disk", s.url)
	}
	return err
}
