package shim

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/yamux"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/source"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

const (
	batchBytes   = sdk.MaxRecordBytes // of output in one callback
	batchRecords = 1024
)

// leg is what a follower does on one relay.
type leg struct {
	f       *follower
	from    sdk.Position
	next    sdk.Position // where the next record of this relay begins
	skip    sdk.Position // Output has got what is before
	behind  bool         // the keeper of this relay has not told as much again; it ignores acknowledgements of what it has not told. The follower's mutex guards it
	deaf    bool         // it takes no stdin
	exited  bool         // the exit came on this relay
	batch   []sdk.Record
	buffer  []byte       // what the batch's data is in
	told    sdk.Position // acknowledged on this relay
	waiting bool         // for the keeper to end the call; as told, write's alone
}

func (l *leg) talk(t *talk) error {
	t.patience(l.f.d.o.CallTimeout)
	if err := l.open(t); err != nil {
		return err
	}
	t.patience(0)
	t.session.own.Go(func() { l.write(t) })
	for {
		kind, p, err := t.Read()
		if err != nil {
			return err
		}
		record := kind == wire.KindOutput || kind == wire.KindGap
		if record {
			err = l.record(t, kind, p)
		}
		if err == nil && (!record || !t.Buffered()) {
			err = l.flush(t)
		}
		if err != nil {
			return err
		}
		switch kind {
		case wire.KindOutput, wire.KindGap:
		case wire.KindTaken:
			err = l.taken(t, p)
		case wire.KindExit:
			err = l.exit(t, p)
		case wire.KindEnd:
			return l.end(t, p)
		default:
			err = fmt.Errorf("%w: a frame of kind %d while following", wire.ErrProtocol, kind)
		}
		if err != nil {
			return err
		}
	}
}

func (l *leg) open(t *talk) error {
	f := l.f
	kind, p, err := t.Read()
	if err != nil {
		return err
	}
	if kind == wire.KindEnd {
		return l.end(t, p)
	}
	if kind != wire.KindOpened {
		return fmt.Errorf("%w: a frame of kind %d where a journal is opened", wire.ErrProtocol, kind)
	}
	var m wire.Opened
	if err := wire.Decode(p, &m); err != nil {
		return err
	}
	o, err := m.SDK()
	if err != nil {
		return err
	}
	f.mu.Lock()
	if !f.opened {
		f.stdin = ahead{taken: o.StdinTaken, most: o.StdinTaken}
	}
	l.deaf = f.follow.Stdin == nil || t.session.dead()
	before := f.stdin.taken
	possible := l.deaf || f.stdin.resume(o.StdinTaken)
	f.mu.Unlock()
	if !possible {
		return fmt.Errorf("%w: a keeper that has taken other stdin than was sent", wire.ErrProtocol)
	}
	if f.opened {
		return l.tellTaken(t, before) // the frame that told so may have been lost
	}
	return t.hand(func() error {
		if f.follow.Opened != nil {
			if err := f.follow.Opened(o); err != nil {
				return err
			}
		}
		f.opened = true
		if f.follow.Stdin != nil {
			f.source = source.New(f.follow.Stdin, f.feed)
		}
		return nil
	})
}

// record puts a record into the batch, but for what Output has got already. If more is at hand its data is copied.
func (l *leg) record(t *talk, kind wire.Kind, p []byte) error {
	r, err := wire.Record(kind, p, l.next)
	if err != nil {
		return err
	}
	l.next = r.End()
	if l.behind && l.next >= l.skip {
		l.f.mu.Lock()
		l.behind = false
		l.f.changed.Broadcast()
		l.f.mu.Unlock()
	}
	if l.next <= l.skip {
		return nil
	}
	if l.exited || l.f.exited {
		return fmt.Errorf("%w: output after the exit", wire.ErrProtocol)
	}
	if r.Position < l.skip {
		if !r.IsGap() {
			r.Data = r.Data[l.skip-r.Position:]
		}
		r.Position = l.skip
	}
	if len(l.batch) == batchRecords || len(l.buffer)+len(r.Data) > batchBytes {
		if err := l.flush(t); err != nil {
			return err
		}
	}
	if t.Buffered() && !r.IsGap() {
		at := len(l.buffer)
		l.buffer = append(l.buffer, r.Data...)
		r.Data = l.buffer[at:len(l.buffer):len(l.buffer)]
	}
	l.batch = append(l.batch, r)
	return nil
}

func (l *leg) flush(t *talk) error {
	if len(l.batch) == 0 {
		return nil
	}
	f := l.f
	end := l.batch[len(l.batch)-1].End()
	err := t.hand(func() error {
		f.mu.Lock()
		f.delivered = end // from here on the caller may acknowledge it
		f.mu.Unlock()
		if f.follow.Output != nil {
			if err := f.follow.Output(l.batch); err != nil {
				return err
			}
		}
		if f.follow.Acks == nil {
			f.mu.Lock()
			f.acked = end
			f.changed.Broadcast()
			f.mu.Unlock()
		}
		return nil
	})
	l.batch, l.buffer = nil, l.buffer[:0] // the batch is the caller's
	return err
}

func (l *leg) taken(t *talk, p []byte) error {
	n, err := wire.Number(p)
	if err != nil {
		return err
	}
	f := l.f
	if l.deaf {
		return fmt.Errorf("%w: stdin is taken of a follower that has none", wire.ErrProtocol)
	}
	f.mu.Lock()
	before := f.stdin.taken
	possible := f.stdin.take(n)
	f.changed.Broadcast()
	f.mu.Unlock()
	if !possible {
		return fmt.Errorf("%w: more stdin is taken than was sent", wire.ErrProtocol)
	}
	return l.tellTaken(t, before)
}

// tellTaken calls Taken if more is taken than before.
func (l *leg) tellTaken(t *talk, before int64) error {
	f := l.f
	f.mu.Lock()
	n := f.stdin.taken
	f.mu.Unlock()
	if n <= before || f.follow.Taken == nil {
		return nil
	}
	return t.hand(func() error { f.follow.Taken(n); return nil })
}

func (l *leg) exit(t *talk, p []byte) error {
	var m wire.Exit
	if err := wire.Decode(p, &m); err != nil {
		return err
	}
	e, err := m.SDK()
	if err != nil {
		return err
	}
	if l.exited {
		return fmt.Errorf("%w: a second exit", wire.ErrProtocol)
	}
	if l.next < l.skip {
		return fmt.Errorf("%w: a journal that ends at %d, where %d was told before", wire.ErrProtocol, l.next, l.skip)
	}
	l.exited = true
	f := l.f
	if !f.exited {
		err = t.hand(func() error {
			if f.follow.Exit != nil {
				if err := f.follow.Exit(e); err != nil {
					return err
				}
			}
			f.mu.Lock()
			f.exited = true
			f.changed.Broadcast()
			f.mu.Unlock()
			return nil
		})
	}
	return err
}

// end reads how the keeper ends the call.
func (l *leg) end(t *talk, p []byte) error {
	f := l.f
	if len(p) == 0 || string(p) == "null" {
		if !l.exited {
			return fmt.Errorf("%w: the end of a journal without an exit", wire.ErrProtocol)
		}
		return nil
	}
	var m wire.Failure
	if err := wire.Decode(p, &m); err != nil {
		return err
	}
	if f.opened && (m.Class == sdk.Invalid || m.Class == sdk.NotFound) {
		return fmt.Errorf("%w: a journal that was opened and is not there: %s", wire.ErrProtocol, wire.Text(m.Message))
	}
	return f.failure(&m, sdk.KindProcess, string(f.process), t.session.dead())
}

// write sends acknowledgements and stdin until the call ends, or nothing can be sent.
func (l *leg) write(t *talk) {
	f := l.f
	defer context.AfterFunc(t.ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changed.Broadcast()
	})()
	buf := make([]byte, 0, stdinChunk)
	for {
		ack, chunk, end := l.wait(t, buf)
		var err error
		switch {
		case ack > 0:
			err = t.WriteNumber(wire.KindAck, int64(ack))
		case len(chunk) > 0:
			err = t.Write(wire.KindStdin, chunk)
		case end:
			err = t.Write(wire.KindStdinEnd)
		default:
			return
		}
		if errors.Is(err, yamux.ErrConnectionWriteTimeout) {
			t.session.discard(nil)
		}
		if err != nil {
			return // whoever reads knows why
		}
	}
}

// wait waits for something to send: an acknowledgement, else stdin, copied to buf, else its end; nothing once ctx has ended. When all is
// said that a keeper can wait for, it is given CallTimeout to end the call.
func (l *leg) wait(t *talk, buf []byte) (ack sdk.Position, chunk []byte, end bool) {
	f := l.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for t.ctx.Err() == nil {
		if f.acked > l.told && !l.behind {
			l.told = f.acked
			return l.told, nil, false
		}
		if !l.deaf {
			if p := f.stdin.next(stdinChunk); len(p) > 0 {
				return 0, append(buf, p...), false
			}
			if f.stdin.end && !f.stdin.told {
				f.stdin.told = true
				return 0, nil, true
			}
		}
		if f.exited && f.acked == f.delivered && !l.behind && !l.waiting {
			l.waiting = true
			t.patience(f.d.o.CallTimeout)
		}
		f.changed.Wait()
	}
	return 0, nil, false
}
