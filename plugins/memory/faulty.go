package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// faulty is a worker with faults in front of it. It has every ability that a worker can have; what the worker beneath cannot do is
// Unsupported, as it is without.
type faulty struct {
	worker sdk.Worker
	exit   func(code int)

	mu     sync.Mutex
	faults []Fault
	calls  map[string]int // so far, by operation
}

// withFaults puts faults before a worker, if there are any. They count calls over all handles, so there must be one for a worker.
func withFaults(w sdk.Worker, faults []Fault) sdk.Worker {
	if len(faults) == 0 {
		return w
	}
	return &faulty{worker: w, exit: os.Exit, faults: faults, calls: make(map[string]int)}
}

// due are the faults of one more call.
func (w *faulty) due(operation string) []Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.calls[operation]
	w.calls[operation]++
	var due []Fault
	for _, f := range w.faults {
		if f.Operation != operation || f.Check() != nil || n < f.After {
			continue
		}
		if count := max(f.Count, 1); f.Count < 0 || n < f.After+count {
			due = append(due, f)
		}
	}
	return due
}

// call makes a call that has no stream.
func (w *faulty) call(ctx context.Context, operation string, do func(sdk.Worker) error) error {
	return w.stream(ctx, operation, func(worker sdk.Worker, _ *cut) error { return do(worker) })
}

// stream makes a call whose stream do passes through the cut. Faults that are due at once happen in the order of the configuration.
func (w *faulty) stream(ctx context.Context, operation string, do func(sdk.Worker, *cut) error) error {
	due := w.due(operation)
	passes := &cut{}
	for _, f := range due {
		switch {
		case f.Kind == FaultDelay:
			if err := pause(ctx, f.Delay); err != nil {
				return err
			}
		case f.Kind == FaultFail:
			return f.failure()
		case f.Kind == FaultHang && !f.Effect:
			<-ctx.Done()
			return ctx.Err()
		case f.Kind == FaultCrash && !f.Effect:
			return w.crash(f)
		case f.Kind == FaultCut:
			*passes = cut{armed: true, left: f.Bytes}
		}
	}
	err := do(w.worker, passes)
	if passes.done() {
		err = sdk.NewUnavailable(nil, "%s broke off, by a fault of the configuration", operation)
	}
	for _, f := range due {
		switch f.Kind {
		case FaultLose:
			err = sdk.NewUnavailable(nil, "the answer of %s was lost, by a fault of the configuration", operation)
		case FaultHang:
			<-ctx.Done()
			return ctx.Err()
		case FaultCrash:
			return w.crash(f)
		}
	}
	return err
}

func (w *faulty) crash(f Fault) error {
	fmt.Fprintf(os.Stderr, "slipway-memory: exits at %s, by a fault of the configuration\n", f.Operation)
	w.exit(CrashCode)
	return sdk.NewUnavailable(nil, "the plugin has ended at %s", f.Operation)
}

func (f Fault) failure() error {
	class := f.Class
	if class == "" {
		class = sdk.Unavailable
	}
	return &sdk.Error{Class: class, Reason: f.Reason, Message: fmt.Sprintf("%s failed, by a fault of the configuration", f.Operation)}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cut lets some bytes of a stream pass. The zero cut lets all pass. Streams have one goroutine at a time.
type cut struct {
	mu    sync.Mutex
	armed bool
	left  int64
	cut   bool
}

// errCut ends a stream within a call; it never leaves it.
var errCut = errors.New("the stream is cut")

// pass says how many of n bytes pass, and errCut where they are not all.
func (c *cut) pass(n int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.armed || int64(n) <= c.left {
		c.left -= int64(n)
		return n, nil
	}
	n = int(c.left)
	c.left, c.cut = 0, true
	return n, errCut
}

func (c *cut) done() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

type cutReader struct {
	r io.Reader
	c *cut
}

func (r cutReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	passed, stop := r.c.pass(n)
	if stop != nil {
		return passed, stop
	}
	return n, err
}

type cutWriter struct {
	w io.Writer
	c *cut
}

func (w cutWriter) Write(p []byte) (int, error) {
	passed, stop := w.c.pass(len(p))
	n, err := w.w.Write(p[:passed])
	if err == nil {
		err = stop
	}
	return n, err
}

// output passes on what passes of records.
func (c *cut) output(deliver func([]sdk.Record) error) func([]sdk.Record) error {
	if deliver == nil {
		deliver = func([]sdk.Record) error { return nil }
	}
	return func(records []sdk.Record) error {
		for i, r := range records {
			n, stop := c.pass(len(r.Data))
			if stop == nil {
				continue
			}
			records = records[:i:i]
			if n > 0 {
				r.Data = r.Data[:n]
				records = append(records, r)
			}
			if len(records) > 0 {
				if err := deliver(records); err != nil {
					return err
				}
			}
			return stop
		}
		return deliver(records)
	}
}
