package host

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// ViaDirect says in [StreamProgress.Via] that a volume went from worker to worker without passing through the host.
const ViaDirect = "direct"

// directError says that a volume could not go directly; it may well go through the host.
type directError struct{ Err error }

func (e *directError) Error() string { return "directly: " + e.Err.Error() }

// Unwrap gives Err.
func (e *directError) Unwrap() error { return e.Err }

// peers tells whether one worker may send to another directly, by what they say of themselves. Whether they speak the same protocol is
// found out by trying.
func peers(from, to sdk.Status) bool {
	return from.Has(sdk.FeaturePeerStream) && to.Has(sdk.FeaturePeerStream) && from.Zone != "" && from.Zone == to.Zone
}

// canSend tells whether a source is to send to a worker directly: nobody has to count bytes, and it did not take long to fail when it was last tried.
func (h *Host) canSend(src source, w *worker) bool {
	if src.worker == nil || h.streamLimits() != (StreamLimits{}) {
		return false
	}
	if !peers(src.worker.report().Status, w.report().Status) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().After(h.hung[pair{src.name, w.name}])
}

// pair names the two workers of a direct stream.
type pair struct{ from, to string }

// Bounds of a direct stream, of which nothing is seen before its end.
const (
	slowestDirect = 1 << 20 // bytes a second; one that is slower is better relayed
	unknownDirect = 3       // times Timing.WorkerGone, for a volume of unknown size
	longFailure   = 10      // one that took so many-th of Timing.WorkerGone to fail is not tried again at once
)

// directTime is how long a direct stream may take: as long as the host waits for a worker, and as long as the content takes at slowestDirect.
func (h *Host) directTime(bytes int64) time.Duration {
	if bytes <= 0 {
		return unknownDirect * h.cfg().Timing.WorkerGone
	}
	return h.cfg().Timing.WorkerGone + time.Duration(bytes/slowestDirect)*time.Second
}

// sendDirect has the source's worker send to the other by its ticket. Its failures are *directError. A pair that took long to fail is left alone
// for as long as the host waits for a worker: a network that swallows packets would make each stream wait anew.
func (h *Host) sendDirect(ctx context.Context, src source, w *worker, row store.Volume, tell func(sent)) (sent, error) {
	began := time.Now()
	s := sent{via: ViaDirect, bytes: -1}
	tell(s)
	within, cancel := context.WithTimeout(ctx, h.directTime(src.volume.Bytes))
	defer cancel()
	err := sendByTicket(within, src, w, sdk.VolumeID(row.ID))
	s.took = time.Since(began)
	if err == nil {
		if src.volume.Bytes > 0 { // the same content
			s.bytes = src.volume.Bytes
		}
		return s, nil
	}
	if s.took >= h.cfg().Timing.WorkerGone/longFailure && ctx.Err() == nil {
		err = fmt.Errorf("after %s: %w", s.took.Round(time.Second), err)
		h.leaveAlone(pair{src.name, w.name}, time.Now().Add(h.cfg().Timing.WorkerGone))
	}
	return s, &directError{Err: err}
}

// leaveAlone has nothing go directly between two workers until then. What is over by now is forgotten, so that workers that come and go leave nothing.
func (h *Host) leaveAlone(p pair, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hung == nil {
		h.hung = make(map[pair]time.Time)
	}
	now := time.Now()
	maps.DeleteFunc(h.hung, func(_ pair, until time.Time) bool { return now.After(until) })
	h.hung[p] = until
}

// sendByTicket asks the destination for a ticket and gives it to the source.
func sendByTicket(ctx context.Context, src source, w *worker, dst sdk.VolumeID) error {
	from, err := src.worker.acquire(ctx)
	if err != nil {
		return err
	}
	to, err := w.acquire(ctx)
	if err != nil {
		return err
	}
	sender, sends := from.(sdk.PeerStreamer)
	receiver, receives := to.(sdk.PeerStreamer)
	if !sends || !receives { // a runtime inside this program whose status says more than its type
		return sdk.NewUnsupported(sdk.FeaturePeerStream)
	}
	gives := src.worker.report().Status
	encoding := stream.Common(gives.Encodings, w.report().Status.Encodings)
	if encoding == "" {
		return sdk.NewInvalid(sdk.ReasonEncoding, "%s and %s name no encoding that both speak", src.name, w.name)
	}
	ticket, err := receiver.PeerTicket(ctx, dst, sdk.StreamIn{Encoding: encoding})
	if err != nil {
		return fmt.Errorf("ticket of %s: %w", w.name, err)
	}
	if ticket.Zone != gives.Zone {
		return sdk.NewUnavailable(nil, "%s gave a ticket for zone %q, and %s is in %q", w.name, ticket.Zone, src.name, gives.Zone)
	}
	return sender.PeerSend(ctx, sdk.VolumeID(src.volume.ID), sdk.StreamOut{Encoding: encoding}, ticket)
}
