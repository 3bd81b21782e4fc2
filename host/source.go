package host

import (
	"context"
	"fmt"
	"io"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// source is where content can be read: a sealed volume of a worker, a blob of the host, or a directory of this machine.
type source struct {
	name   string       // of the worker, or one of those below
	worker *worker      // nil: blobs or dir
	volume store.Volume // the worker's
	blobs  *blobs       // nil: dir
	id     string       // of the artifact
	sum    string       // of the blob
	dir    string
	only   bool // there is no other

	doubted bool // it could not be read when it was tried last
}

// Places that are no workers.
const (
	hostSource  = "host"
	localSource = "local"
)

// read writes the content as a raw archive, which crosses to this machine in the encoding that is best for both.
func (s source) read(ctx context.Context, w io.Writer) error {
	if s.blobs != nil {
		return s.blobs.read(ctx, s.id, s.sum, w)
	}
	if s.worker == nil {
		return stream.PackDir(ctx, s.dir, w)
	}
	if _, err := s.worker.acquire(ctx); err != nil { // before that it may have told nothing of encodings
		return err
	}
	encoding := stream.Own(s.worker.report().Status.Encodings)
	return stream.Decoded(encoding, s.encoded(encoding))(ctx, w)
}

// encoded gives what writes a worker's content as the worker encodes it.
func (s source) encoded(encoding string) func(context.Context, io.Writer) error {
	return func(ctx context.Context, w io.Writer) error {
		conn, err := s.worker.acquire(ctx)
		if err != nil {
			return err
		}
		return conn.StreamOut(ctx, sdk.VolumeID(s.volume.ID), sdk.StreamOut{Encoding: encoding}, w)
	}
}

// sources lists where an artifact can be read: workers' replicas before this machine's directory, which may
// have changed since.
func (h *Host) sources(ctx context.Context, a *Artifact) ([]source, error) {
	var rows []store.Volume
	var artifact store.Artifact
	err := h.store.View(ctx, func(tx *store.Tx) (err error) {
		if artifact, err = tx.Artifact(a.ID); err != nil {
			return noArtifact(a.Name, err)
		}
		rows, err = tx.Volumes(store.VolumeFilter{Artifact: a.ID, States: []string{lifecycle.VolumeSealed}})
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []source
	for _, row := range rows {
		if w, err := h.worker(row.Worker); err == nil {
			out = append(out, source{name: w.name, worker: w, volume: row, doubted: h.doubts.has(row.ID)})
		}
	}
	if artifact.Blob != "" {
		out = append(out, source{name: hostSource, blobs: h.blobs, id: a.ID, sum: artifact.Blob})
	}
	h.mu.Lock()
	dir, ok := h.local[a.ID]
	h.mu.Unlock()
	if ok {
		out = append(out, source{name: localSource, dir: dir})
	}
	if len(out) == 0 {
		return nil, &sdk.Error{Class: sdk.NotFound, Kind: KindArtifact, ID: a.Name,
			Message: fmt.Sprintf("artifact %s has no content any more, since the workers that had it have lost it: make it again", a.Name)}
	}
	return out, nil
}
