package store

import (
	"context"
	"errors"
	"fmt"
)

// Space that is kept for rows to come: more of it is given back to the file system.
const (
	sparePages  = 32      // at least
	spareShare  = 20      // of all: a twentieth
	shrinkPages = 1 << 10 // given back in one transaction, for which others wait
)

// Shrink gives most of the space back that deleted rows have left. It takes many short transactions, between which others come. A database that was made before
// this was in the package keeps its space, and fills it again.
func (s *Store) Shrink(ctx context.Context) error {
	for {
		more := false
		err := s.Release(ctx, KillSafe, func(tx *Tx) (err error) {
			more, err = tx.shrink()
			return err
		})
		if err != nil || !more {
			return err
		}
	}
}

// shrink gives some pages back, and tells whether there are more.
func (tx *Tx) shrink() (more bool, err error) {
	var free, all, mode int64
	for pragma, to := range map[string]*int64{"freelist_count": &free, "page_count": &all, "auto_vacuum": &mode} {
		if err := tx.number("PRAGMA "+pragma, to); err != nil {
			return false, err
		}
	}
	const incremental = 2
	spare := max(sparePages, all/spareShare)
	if mode != incremental || free <= 2*spare {
		return false, nil
	}
	n := min(free-spare, shrinkPages)
	return free-n > 2*spare, tx.vacuum(n)
}

func (tx *Tx) number(query string, to *int64) error {
	if err := tx.usable(false); err != nil {
		return err
	}
	st, err := tx.session.stmt(query)
	if err == nil {
		err = st.QueryRowContext(context.Background()).Scan(to)
	}
	if err != nil {
		return tx.fail("space of the database", "", err)
	}
	return nil
}

// vacuum gives pages back. SQLite gives one for each step of the statement.
func (tx *Tx) vacuum(pages int64) error {
	if err := tx.usable(true); err != nil {
		return err
	}
	rows, err := tx.session.conn.QueryContext(context.Background(), fmt.Sprintf("PRAGMA incremental_vacuum(%d)", pages))
	if err != nil {
		return tx.fail("space of the database", "", err)
	}
	for rows.Next() {
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return tx.fail("space of the database", "", err)
	}
	return nil
}
