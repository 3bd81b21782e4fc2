package store

import (
	"context"
	"errors"
	"runtime/debug"
)

// Durability is what an Update must survive once it has returned nil.
type Durability int

const (
	KillSafe  Durability = iota // a kill -9 of this process
	PowerSafe                   // a loss of power as well: it waits for the disk
)

// maxBatch bounds how long the first of a batch waits for the last.
const maxBatch = 256

// Update runs fn, once, in a transaction, and returns after it is stored as d
// says. Updates run one after the other, in the order of their calls, and each
// sees those before it; those that wait at the same time share one commit. If
// fn returns an error or panics (*PanicError), nothing of it is stored, others
// in the same commit are not touched, and the error is returned as it is. So
// is any error of a Tx method that fn chose to overlook, ErrNotFound and
// ErrExists excepted: the transaction cannot go on after those.
//
// ctx bounds the wait for the turn, not fn and the commit: once fn has begun,
// Update returns what became of it. After ErrFull, and after fn's own error,
// nothing is stored. After any other error of the commit itself (the disk
// fails) nothing is seen by this Store, but the next one may find it stored.
//
// fn runs in the caller's goroutine while all other Updates wait: it should
// compute and store, and must not call Update, wait for a worker, or keep tx.
func (s *Store) Update(ctx context.Context, d Durability, fn func(*Tx) error) error {
	return s.submit(ctx, newRequest(d, false), fn)
}

// Release is Update for work that leads to space being freed: recording that
// something was, or is to be, destroyed. When the disk is full it may use the
// reserve, so that cleaning up still works; it fails with ErrFull only if that
// is used up too. fn may run a second time, after what it did the first time
// was undone.
//
// From then on, until there is room to fill the reserve again, Update answers
// ErrFull and leaves the rest of the reserve to Release.
func (s *Store) Release(ctx context.Context, d Durability, fn func(*Tx) error) error {
	return s.submit(ctx, newRequest(d, true), fn)
}

func (s *Store) submit(ctx context.Context, r *request, fn func(*Tx) error) error {
	if s.written == nil {
		return ErrReadOnly
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.queue.add(r); err != nil {
		return err
	}
	cancelled := ctx.Done()
	for {
		select {
		case tx := <-r.turn:
			r.call(tx, fn)
		case err := <-r.done:
			return err
		case <-cancelled:
			if s.queue.withdraw(r) {
				return ctx.Err()
			}
			cancelled = nil
		}
	}
}

var errExited = errors.New("the function of an update ended its goroutine")

// call runs fn and reports to the writer, also if fn panics or exits.
func (r *request) call(tx *Tx, fn func(*Tx) error) {
	err := errExited
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		tx.over = true
		if err == nil {
			err = tx.failed
		}
		r.after = tx.after
		r.ran <- err
	}()
	err = fn(tx)
}
