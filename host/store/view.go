package store

import (
	"context"
	"errors"
)

// View gives fn a transaction to read with: everything that fn reads is as of
// its first read, whatever is stored meanwhile, and includes every Update that
// returned before View was called. It waits for a free connection while ctx
// lasts; the Tx's methods fail once ctx has ended. fn's error is returned as it is.
//
// A View that lasts keeps the database from reusing the space of its log:
// collect rows and leave.
func (s *Store) View(ctx context.Context, fn func(*Tx) error) error {
	return s.read(ctx, func(r *session) (err error) {
		if _, err := r.exec("BEGIN"); err != nil {
			return translate(s.file, err)
		}
		tx := &Tx{ctx: ctx, schema: s.schema, session: r, file: s.file, readOnly: true}
		defer func() {
			tx.over = true
			if e := r.abandon(); e != nil {
				err = errors.Join(err, e)
			}
		}()
		return fn(tx)
	})
}

// read lends fn a session of the pool.
func (s *Store) read(ctx context.Context, fn func(*session) error) error {
	if s.queue.isClosed() {
		return ErrClosed
	}
	var r *session
	select {
	case r = <-s.readers:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.readers <- r }()
	if s.queue.isClosed() {
		return ErrClosed
	}
	if r == nil {
		fresh, err := s.newReader(ctx)
		if err != nil {
			return translate(s.file, err)
		}
		r = fresh
	}
	return fn(r)
}

func (s *Store) newReader(ctx context.Context) (*session, error) {
	r, err := newSession(ctx, s.db)
	if err != nil {
		return nil, err
	}
	if _, err := r.conn.ExecContext(ctx, "PRAGMA query_only = 1"); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}
