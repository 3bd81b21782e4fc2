package store

import (
	"errors"
	"fmt"
	"slices"
)

// writer owns the connection that writes. Its loop is the only goroutine of a Store.
type writer struct {
	file    string
	schema  *schema
	queue   *queue
	session *session
	reserve *reserve
	current Durability // what the connection is set to, unless the directory is temporary
	temp    bool
	full    *fullness
}

func (w *writer) loop() error {
	for {
		batch := w.queue.take(maxBatch)
		if len(batch) == 0 {
			return w.session.close()
		}
		if !w.reserve.whole() {
			batch = w.ration(batch)
		}
		w.serve(batch)
	}
}

// ration refuses all but releases while the disk has no room for the reserve.
func (w *writer) ration(batch []*request) []*request {
	if w.reserve.refill() {
		return batch
	}
	kept := batch[:0]
	for _, r := range batch {
		if r.release {
			kept = append(kept, r)
			continue
		}
		err := fmt.Errorf("%s: %w: %w", w.file, ErrFull, w.reserve.why)
		w.full.begin(err)
		r.done <- err
	}
	return kept
}

// serve gives every request of batch its answer, or its place in the queue
// back if it has had no turn or is to have another.
func (w *writer) serve(batch []*request) {
	if len(batch) == 0 {
		return
	}
	ran, lost := w.transact(batch)
	if lost != nil {
		lost = translate(w.file, lost)
	}
	again := w.retry(batch[:ran], lost)
	for _, r := range batch[:ran] {
		if slices.Contains(again, r) {
			continue
		}
		if r.err == nil {
			r.err = lost
		}
		if errors.Is(r.err, ErrFull) {
			w.full.begin(r.err)
		}
		if r.err == nil {
			for _, f := range r.after {
				f()
			}
		}
		r.done <- r.err
	}
	w.queue.putBack(append(again, batch[ran:]...))
}

// retry picks the releases that the full disk has failed, if the reserve can
// make room for them.
func (w *writer) retry(batch []*request, lost error) (again []*request) {
	for _, r := range batch {
		err := r.err
		if err == nil {
			err = lost
		}
		if r.release && errors.Is(err, ErrFull) {
			again = append(again, r)
		}
	}
	if len(again) == 0 || !w.reserve.give() {
		return nil
	}
	w.full.begin(fmt.Errorf("%s: %w: %w", w.file, ErrFull, errGivenUp))
	// What has moved from the log to its place need not make it longer. That
	// this may fail too is no matter: it is tried again with each commit.
	_, _ = w.session.exec("PRAGMA wal_checkpoint(PASSIVE)")
	return again
}

// transact runs batch in one transaction. It returns how many had their turn,
// and the error that lost the transaction for all of them, if one did; what is
// only a request's own is in its err.
func (w *writer) transact(batch []*request) (ran int, lost error) {
	if err := w.begin(batch); err != nil {
		return len(batch), err
	}
	for i, r := range batch {
		if err := w.turn(r); err != nil {
			return i + 1, errors.Join(err, w.session.abandon())
		}
	}
	if _, err := w.session.exec("COMMIT"); err != nil {
		return len(batch), errors.Join(err, w.session.abandon())
	}
	return len(batch), nil
}

// begin opens a transaction that is as durable as the most careful request asks.
func (w *writer) begin(batch []*request) error {
	d := KillSafe
	for _, r := range batch {
		d = max(d, r.durability)
	}
	if d != w.current && !w.temp {
		pragma := "PRAGMA synchronous = NORMAL"
		if d == PowerSafe {
			pragma = "PRAGMA synchronous = FULL"
		}
		if _, err := w.session.exec(pragma); err != nil {
			return err
		}
		w.current = d
	}
	_, err := w.session.exec("BEGIN IMMEDIATE")
	return err
}

// turn runs one request in a savepoint. An error means that the transaction is
// lost: SQLite ends it itself when the disk is full or fails.
func (w *writer) turn(r *request) error {
	if _, err := w.session.exec("SAVEPOINT request"); err != nil {
		return err
	}
	tx := &Tx{schema: w.schema, session: w.session, file: w.file, asked: r.durability}
	r.turn <- tx
	r.err = <-r.ran
	if r.err != nil {
		if _, err := w.session.exec("ROLLBACK TO request"); err != nil {
			return errors.Join(tx.failed, err)
		}
	}
	_, err := w.session.exec("RELEASE request")
	return err
}
