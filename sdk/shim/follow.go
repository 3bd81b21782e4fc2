package shim

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/source"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

const (
	stdinChunk = 32 << 10
	vainRelays = 3 // in a row, until a follower gives up
)

// FollowProcess is that of [sdk.Worker]. A relay that is cut is opened again: what Output has got is not delivered twice, stdin neither
// repeated nor skipped. It gives up with Unavailable where no relay opens, or three in a row bring nothing. All callbacks are made from
// the caller's goroutine; one that is slow holds up no other call.
func (d *Driver) FollowProcess(ctx context.Context, container sdk.ContainerID, process sdk.ProcessID, from sdk.Position, follow sdk.Follow) error {
	if from < 0 {
		return sdk.NewInvalid(sdk.ReasonSpec, "container %q: process %q: position %d is negative", container, process, from)
	}
	c, err := d.enter(ctx, container)
	if err != nil {
		return err
	}
	defer c.leave()
	f := &follower{call: c, process: process, follow: follow, name: rand.Text(), acked: from, delivered: from}
	f.changed.L = &f.mu
	var acking sync.WaitGroup
	if follow.Acks != nil {
		acking.Go(f.takeAcks)
	}
	err = f.run()
	c.end()
	acking.Wait()
	f.stopStdin()
	if _, own := errors.AsType[callerError](err); err != nil && !own && f.source != nil {
		if failed := f.source.Failed(); failed != nil {
			return failed
		}
	}
	return c.fail(err, process)
}

// follower is one FollowProcess, over all its relays.
type follower struct {
	*call
	process sdk.ProcessID
	follow  sdk.Follow
	name    string
	opened  bool           // Opened has returned
	exited  bool           // Exit has
	source  *source.Source // of stdin, once opened

	mu        sync.Mutex
	changed   sync.Cond
	acked     sdk.Position // by the caller, so at most delivered; following from here loses nothing
	delivered sdk.Position // what Output has got ends here
	stdin     ahead
	over      bool
}

func (f *follower) run() error {
	vain := 0
	for {
		before := f.progress()
		s, err := f.session(f.ctx)
		if err != nil {
			return err
		}
		f.mu.Lock()
		l := &leg{f: f, from: f.acked, next: f.acked, skip: f.delivered, behind: f.acked < f.delivered, told: f.acked}
		f.mu.Unlock()
		// Before its keeper is known to have opened this follower there is nothing to resume.
		err = s.call(f.ctx, wire.Request{Verb: wire.VerbFollow, Process: f.process,
			Follow: &wire.Follow{From: l.from, Name: f.name, Resume: f.opened, Caller: f.d.name, Turn: f.d.turns.Add(1), Stdin: f.follow.Stdin != nil}}, l.talk)
		if _, cut := errors.AsType[*cutError](err); !cut {
			return err
		}
		if vain++; f.progress() != before {
			vain = 0
		}
		if vain == vainRelays {
			return err
		}
	}
}

// progress changes whenever a relay has brought something.
func (f *follower) progress() [4]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var steps int64
	if f.opened {
		steps++
	}
	if f.exited {
		steps++
	}
	return [4]int64{int64(f.delivered), int64(f.acked), f.stdin.taken, steps}
}

// takeAcks receives the caller's acknowledgements until the call ends.
func (f *follower) takeAcks() {
	for {
		select {
		case <-f.ctx.Done():
			return
		case p, ok := <-f.follow.Acks:
			if !ok {
				return
			}
			f.mu.Lock()
			if p > f.acked && p <= f.delivered {
				f.acked = p
				f.changed.Broadcast()
			}
			f.mu.Unlock()
		}
	}
}

// feed reads stdin, no further than MaxStdinAhead beyond what was taken.
func (f *follower) feed(src *source.Source) {
	buf := make([]byte, stdinChunk)
	for {
		f.mu.Lock()
		for !f.over && len(f.stdin.bytes) >= sdk.MaxStdinAhead {
			f.changed.Wait()
		}
		room := sdk.MaxStdinAhead - len(f.stdin.bytes)
		over := f.over
		f.mu.Unlock()
		if over {
			return
		}
		n, err := src.Read(buf[:min(room, len(buf))])
		f.mu.Lock()
		f.stdin.bytes = append(f.stdin.bytes, buf[:n]...)
		f.stdin.end = err == io.EOF
		f.changed.Broadcast()
		f.mu.Unlock()
		if src.Failed() != nil {
			f.end()
		}
		if err != nil {
			return
		}
	}
}

func (f *follower) stopStdin() {
	f.mu.Lock()
	f.over = true
	f.changed.Broadcast()
	f.mu.Unlock()
	if f.source != nil {
		f.source.Stop()
	}
}
