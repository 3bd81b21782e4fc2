package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// StreamLimits bound what one stream may bring to a worker. Zero: any number of bytes. More is Invalid with sdk.ReasonTooLarge. While either
// is set, no volume goes directly from worker to worker, where nobody would count.
type StreamLimits struct {
	Sent     int64 // bytes as they are sent, mostly compressed between workers
	Unpacked int64 // bytes of the tar archive; compressed streams are decoded on their way to count them
}

// replica is content of an artifact on a worker.
type replica struct {
	volume sdk.VolumeID
	bytes  int64
}

// replicate brings an artifact to a worker, where it becomes one sealed volume, however many ask for it at once. Each of them hears how far it is.
func (h *Host) replicate(ctx context.Context, a *Artifact, w *worker, progress func(StreamProgress)) (replica, error) {
	return h.replicas.follow(ctx, a.ID+"@"+w.name, progress, func(ctx context.Context, tell func(StreamProgress)) (replica, error) {
		defer h.using(a.ID)()
		have, err := h.volumes(ctx, store.VolumeFilter{Worker: w.name, Artifact: a.ID, States: []string{lifecycle.VolumeSealed}})
		if err != nil {
			return replica{}, err
		}
		have = slices.DeleteFunc(have, func(v store.Volume) bool { return h.doubts.missing(v.ID) })
		if len(have) > 0 {
			return replica{volume: sdk.VolumeID(have[0].ID), bytes: have[0].Bytes}, nil
		}
		return h.stream(ctx, a, w, tell)
	})
}

// withReplica uses the replica of an artifact on a worker. Where the worker says that it is not there, another one is filled from any other
// source and used instead, once.
func (h *Host) withReplica(ctx context.Context, a *Artifact, w *worker, progress func(StreamProgress), use func(replica) error) error {
	for first := true; ; first = false {
		r, err := h.replicate(ctx, a, w, progress)
		if err != nil {
			return err
		}
		err = use(r)
		if !isMissing(err, string(r.volume)) || ctx.Err() != nil {
			return err
		}
		h.doubtReplica(ctx, w, string(r.volume), err)
		if !first {
			return err
		}
	}
}

// stream fills a fresh volume from one source after another until one has worked, and seals it. It goes on while what it needs is away,
// for as long as the host waits for a worker.
func (h *Host) stream(ctx context.Context, a *Artifact, w *worker, progress func(StreamProgress)) (r replica, err error) {
	err = h.whileAway(ctx, func() error {
		r, err = h.streamOnce(ctx, a, w, progress)
		return err
	})
	return r, err
}

// whileAway repeats what begins anew each time, while it is Unavailable and for as long as the host waits for a worker.
func (h *Host) whileAway(ctx context.Context, try func() error) error {
	var b backoff
	began := time.Now()
	for {
		err := try()
		_, gone := errors.AsType[*WorkerGoneError](err)
		if gone || ctx.Err() != nil || !errors.Is(err, sdk.Unavailable) || time.Since(began) >= h.cfg().Timing.WorkerGone {
			return err
		}
		if b.wait(ctx, err) != nil {
			return err
		}
	}
}

func (h *Host) streamOnce(ctx context.Context, a *Artifact, w *worker, progress func(StreamProgress)) (r replica, err error) {
	for {
		gone := h.casts.expect(a.ID)
		r, err = h.streamNearest(ctx, a, w, gone, progress)
		gone()
		if !errors.Is(err, errOver) || ctx.Err() != nil {
			return r, err
		}
	}
}

// streamNearest tries one source after another, the nearest first.
func (h *Host) streamNearest(ctx context.Context, a *Artifact, w *worker, gone func(), progress func(StreamProgress)) (replica, error) {
	sources, err := h.sources(ctx, a)
	if err != nil {
		return replica{}, err
	}
	nearest(sources, w.report())
	sources[0].only = len(sources) == 1
	var r replica
	err = h.fromAny(ctx, sources, func(src source) (ofSource bool, err error) {
		if r, err = h.streamFrom(ctx, a, src, w, gone, progress); err == nil {
			return false, nil
		}
		return blamesSource(err) || errors.Is(err, sdk.Unavailable), fmt.Errorf("stream %s from %s to %s: %w", a.Name, src.name, w.name, err)
	})
	return r, err
}

// nearest puts the sources first that are best for a worker.
func nearest(sources []source, to WorkerReport) {
	slices.SortStableFunc(sources, func(x, y source) int { return cmp.Compare(distance(x, to), distance(y, to)) })
}

// distance ranks sources: who can send to a worker directly, who is up or here, who is away, the local directory, which may have changed, and
// what could not be read when it was tried last.
func distance(s source, to WorkerReport) int {
	if s.doubted {
		return 4
	}
	if s.blobs != nil {
		return 1
	}
	if s.worker == nil {
		return 3
	}
	from := s.worker.report()
	switch {
	case !from.Up:
		return 2
	case peers(from.Status, to.Status):
		return 0
	}
	return 1
}

// lockLocal waits until nobody else reads an artifact's directory.
func (h *Host) lockLocal(ctx context.Context, id string) (unlock func(), err error) {
	for {
		h.mu.Lock()
		busy := h.reading[id]
		if busy == nil {
			mine := make(chan struct{})
			h.reading[id] = mine
			h.mu.Unlock()
			return func() {
				h.mu.Lock()
				delete(h.reading, id)
				h.mu.Unlock()
				close(mine)
			}, nil
		}
		h.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// sent is what a stream came to.
type sent struct {
	via   string // as in StreamProgress
	bytes int64  // that were seen; negative: none
	raw   int64  // of the archive, before it was packed here; 0: it was not
	took  time.Duration
}

// A sender fills an open volume of a worker from a source, and tells how far it is.
type sender func(ctx context.Context, src source, w *worker, row store.Volume, tell func(sent)) (sent, error)

// streamFrom makes a replica from one source: directly from worker to worker where that can be. Where it fails, the volume is given up,
// and another is filled through the host. Gone is called once it is known who else is waited for in vain.
func (h *Host) streamFrom(ctx context.Context, a *Artifact, src source, w *worker, gone func(), progress func(StreamProgress)) (replica, error) {
	if src.worker != nil { // nothing is made for a source that is away
		if _, err := src.worker.acquire(ctx); err != nil {
			return replica{}, err
		}
	}
	if h.canSend(src, w) {
		gone()
		r, err := h.fill(ctx, a, src, w, h.sendDirect, progress)
		failed, ok := errors.AsType[*directError](err)
		if !ok || ctx.Err() != nil {
			return r, err
		}
		h.log.Warn("a volume could not go directly from worker to worker, and goes through the host", "artifact", a.Name,
			"from", src.name, "to", w.name, "error", failed.Err)
	}
	// What the workers say of encodings may change while the volume is made, and all who share a cast must mean the same bytes.
	encoding, read := h.reader(src, w.report().Status.Encodings)
	key := a.ID + "@" + src.name + "@" + encoding
	if h.casts.underWay(key) {
		gone() // nobody needs to wait for this one
		if err := h.casts.await(ctx, key, cmp.Or(h.opts.stuck, h.cfg().Timing.WorkerGone/stuckCast)); err != nil {
			return replica{}, err
		}
		key += "@" + newID("s") // the other stands still
	}
	filled := make(chan struct{})
	defer close(filled)
	return h.fill(ctx, a, src, w, h.relayAs(a, key, encoding, read, turn{gone, filled}), progress)
}

// fill has a fresh volume filled and makes it a replica. When it fails nothing is left of it.
func (h *Host) fill(ctx context.Context, a *Artifact, src source, w *worker, send sender, progress func(StreamProgress)) (_ replica, err error) {
	row, err := h.createVolume(ctx, w, "", store.Volume{Artifact: a.ID, Role: roleReplica}, sdk.VolumeSpec{Labels: h.labels(a.Name)})
	if err != nil {
		return replica{}, err
	}
	defer func() {
		if err != nil {
			h.discardVolume(ctx, row)
		}
	}()
	tell := func(s sent, done bool) {
		if progress != nil {
			progress(StreamProgress{Artifact: a.Name, From: src.name, To: w.name, Via: s.via, Bytes: s.bytes, Took: s.took, Done: done})
		}
	}
	s, err := send(ctx, src, w, row, func(s sent) { tell(s, false) })
	if h.streamLimits() != (StreamLimits{}) && errors.Is(err, sdk.ReasonTooLarge) {
		err = fmt.Errorf("%w; stream_size and stream_unpacked_size in the configuration's artifacts block say how much may go to a worker", err)
	}
	if err != nil {
		return replica{}, err
	}
	if err := h.sealVolume(ctx, row); err != nil {
		return replica{}, err
	}
	bytes := h.sizeSent(ctx, src, row, s)
	err = h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) (err error) {
		if _, err := tx.Artifact(a.ID); err != nil {
			return fmt.Errorf("artifact %s was removed meanwhile: %w", a.Name, err)
		}
		row, err = h.keepVolume(tx, row, a.ID, bytes)
		return err
	})
	if err != nil {
		return replica{}, err
	}
	h.streamed.add(s.via, s.bytes)
	tell(s, true)
	return replica{volume: sdk.VolumeID(row.ID), bytes: row.Bytes}, nil
}

// sizeSent is how big the content of a volume is that has just been filled: what the source knew, else what the host saw of it raw, else
// what the worker says. Where nobody knows, packed bytes are better than none.
func (h *Host) sizeSent(ctx context.Context, src source, row store.Volume, s sent) int64 {
	known := cmp.Or(src.volume.Bytes, s.raw)
	if known == 0 && s.via == sdk.EncodingRaw {
		known = s.bytes
	}
	if known == 0 {
		known = h.sizeOf(ctx, row)
	}
	return max(cmp.Or(known, s.bytes), 0)
}

// relay gives a sender through this process, under a key that nobody else has. Between workers that share an encoding, the bytes pass as they are.
func (h *Host) relay(a *Artifact, key string, turn turn) sender {
	return func(ctx context.Context, src source, w *worker, row store.Volume, tell func(sent)) (sent, error) {
		encoding, read := h.reader(src, w.report().Status.Encodings)
		return h.relayAs(a, key, encoding, read, turn)(ctx, src, w, row, tell)
	}
}

// relayAs is relay of bytes that were decided on before. What goes from one source to several workers under one key, which stands for its encoding, is
// read once, if they come in time.
func (h *Host) relayAs(a *Artifact, key, encoding string, read archiveReader, turn turn) sender {
	return func(ctx context.Context, src source, w *worker, row store.Volume, tell func(sent)) (sent, error) {
		said := func(s stream.Stats) sent { return sent{via: encoding, bytes: s.Bytes, took: s.Took} }
		tell(said(stream.Stats{})) // however soon it is over, whoever watches sees that it began
		from := castSource{read: func(c *cast) func(context.Context, io.Writer) error { return read(&c.raw) }}
		if src.name == localSource && src.only {
			from.open = func(ctx context.Context) (func(), error) { return h.openLocal(ctx, a) }
		}
		r := h.share(ctx, key, a, turn, stream.Target{
			Write: func(ctx context.Context, r io.Reader) error {
				conn, err := w.acquire(ctx)
				if err != nil {
					return err
				}
				return conn.StreamIn(ctx, sdk.VolumeID(row.ID), sdk.StreamIn{Encoding: encoding}, r)
			},
			Progress: func(s stream.Stats) { tell(said(s)) },
		}, from)
		s := said(r.stats)
		s.raw = r.raw
		return s, r.err
	}
}

// openLocal locks an artifact's directory for reading it: two workers must not get two contents of it. Whoever comes second finds a
// replica, and this is errOver.
func (h *Host) openLocal(ctx context.Context, a *Artifact) (unlock func(), err error) {
	if unlock, err = h.lockLocal(ctx, a.ID); err != nil {
		return nil, err
	}
	sources, err := h.sources(ctx, a)
	if err == nil && sources[0].name != localSource {
		err = errOver
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// archiveReader gives what writes an archive. If it packs, it counts in raw what it has packed.
type archiveReader func(raw *int64) func(context.Context, io.Writer) error

// reader gives what writes a source's archive for a worker that takes these encodings, and the one that it writes, both as they are decided now.
func (h *Host) reader(src source, takes []string) (encoding string, _ archiveReader) {
	limit := h.streamLimits().Unpacked
	if src.worker != nil {
		gives := src.worker.report().Status.Encodings
		common := stream.Common(gives, takes)
		if limit > 0 { // what cannot be decoded here cannot be counted here
			spoken := slices.DeleteFunc(slices.Clone(takes), func(e string) bool { return !stream.Speaks(e) })
			common = stream.Common(gives, append(spoken, sdk.EncodingRaw))
		}
		if common != "" {
			read := src.encoded(common)
			if limit > 0 {
				read = stream.Limited(common, limit, read)
			}
			return common, func(*int64) func(context.Context, io.Writer) error { return read }
		}
	}
	read := src.read
	if limit > 0 {
		read = stream.Limited(sdk.EncodingRaw, limit, read)
	}
	encoding = stream.Own(takes)
	return encoding, func(raw *int64) func(context.Context, io.Writer) error {
		if encoding == sdk.EncodingRaw {
			return read
		}
		return stream.Encoded(encoding, counted(raw, read))
	}
}

// counted makes a source count in n what it writes.
func counted(n *int64, src func(context.Context, io.Writer) error) func(context.Context, io.Writer) error {
	return func(ctx context.Context, w io.Writer) error {
		return src(ctx, countingWriter{w, n})
	}
}

type countingWriter struct {
	w io.Writer
	n *int64
}

func (c countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	*c.n += int64(n)
	return n, err
}
