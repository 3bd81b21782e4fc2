//go:build linux

package store

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
	"github.com/slipway-run/slipway/sdk"
)

// firstLine bounds the wait for what a session is about.
const firstLine = time.Minute

// session holds or seals volumes for a plugin, until that has said the last word or its connection ends.
func (s *server) session(ctx context.Context, c net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	x := storenet.NewSession(c)
	lines := make(chan storenet.Request)
	var own sync.WaitGroup
	own.Go(func() {
		defer cancel() // nobody is there: whatever is awaited for it can end
		for {
			line, err := x.Next()
			if err != nil {
				return
			}
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
	})
	defer own.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	defer c.Close()

	next := func() (storenet.Request, error) {
		select {
		case line := <-lines:
			return line, nil
		case <-ctx.Done():
			return storenet.Request{}, ctx.Err()
		}
	}
	within := time.AfterFunc(firstLine, cancel)
	first, err := next()
	if !within.Stop() || err != nil {
		return
	}
	var last storenet.Reply
	switch {
	case first.Seal != "":
		last, err = s.seal(ctx, x, first.Seal, next)
	default:
		last, err = s.share(ctx, x, first.Share, next)
	}
	if err != nil {
		last = storenet.Reply{Error: storenet.NewFault(err)}
	}
	_ = x.Answer(last) // whoever is not there any more has no use for it
}

// share holds volumes until the plugin has had enough.
func (s *server) share(ctx context.Context, x *storenet.Session, ids []sdk.VolumeID, next func() (storenet.Request, error)) (storenet.Reply, error) {
	if len(ids) == 0 || len(ids) > storenet.MaxShare {
		return storenet.Reply{}, sdk.NewInvalid(sdk.ReasonSpec, "%d volumes cannot be held at once: at least 1, at most %d", len(ids), storenet.MaxShare)
	}
	volumes, unlock, err := s.volumes.Share(ctx, ids...)
	if err != nil {
		return storenet.Reply{}, err
	}
	defer unlock()
	told := make(map[sdk.VolumeID]storenet.Volume, len(volumes))
	for id, v := range volumes {
		told[id] = storenet.Volume{State: v.State, Path: filepath.Join(volumesDir, string(id), filepath.Base(v.Dir))}
	}
	if err := x.Answer(storenet.Reply{Volumes: told}); err != nil {
		return storenet.Reply{}, err
	}
	_, err = next()
	return storenet.Reply{Done: true}, err
}

// seal seals a volume. Its containers are the plugin's to quiet, which asked by quiesce happens while the volume is locked.
func (s *server) seal(ctx context.Context, x *storenet.Session, id sdk.VolumeID, next func() (storenet.Request, error)) (storenet.Reply, error) {
	ask := func(ctx context.Context) error {
		if err := x.Answer(storenet.Reply{Quiesce: true}); err != nil {
			return err
		}
		answer, err := next()
		switch {
		case err != nil:
			return err
		case answer.Error != nil:
			return answer.Error.Err()
		case !answer.Go:
			return sdk.NewInvalid(sdk.ReasonSpec, "sealing volume %q: the plugin's answer means nothing", id)
		}
		return nil
	}
	err := s.volumes.SealVolume(context.WithValue(ctx, asker{}, ask), id)
	return storenet.Reply{Done: true}, err
}

// asker is the key of a call's own way to quiet containers, for the volumes have one for all calls.
type asker struct{}

// quiesce asks the plugin that wants a volume sealed.
func quiesce(ctx context.Context, id sdk.VolumeID) error {
	ask, ok := ctx.Value(asker{}).(func(context.Context) error)
	if !ok {
		return sdk.NewInternal(nil, "sealing volume %q: nobody is there to quiet the containers that write it", id)
	}
	return ask(ctx)
}
