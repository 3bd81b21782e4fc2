package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Tx reads and writes rows within one View or Update. It is for the goroutine
// and the duration of the function that it was given to.
//
// For every kind of row there are: PutX, which makes the row with this id or
// replaces the whole of it; X, which answers ErrNotFound if there is none;
// DeleteX, which is nil if there is none; and Xs, which lists those that match
// every field set in the filter, in the order of their ids (which is, for ids
// made from ULIDs, that of their making).
//
// Times are kept to the nanosecond and come back in UTC; the zero Time stays
// zero. Bytes come back as a copy; nil and empty are the same.
type Tx struct {
	ctx      context.Context // nil in an Update, which is never interrupted
	schema   *schema
	session  *session
	file     string
	asked    Durability // of the Update
	readOnly bool
	over     bool
	failed   error // the first error after which the transaction cannot go on
	after    []func()
}

// Committed has f called once this Update is stored, and before it returns: never if it is not, and in the order in which Updates are
// stored. It is for what this process keeps in memory of the rows. All Updates wait for f, which must not call the Store.
func (tx *Tx) Committed(f func()) { tx.after = append(tx.after, f) }

// Durability is what this Update was asked to survive; others in its commit may have been asked for more.
func (tx *Tx) Durability() Durability { return tx.asked }

// usable says whether a statement may run.
func (tx *Tx) usable(write bool) error {
	switch {
	case tx.over:
		return ErrTxDone
	case write && tx.readOnly:
		return ErrReadOnly
	case tx.failed != nil:
		return tx.failed
	case tx.ctx != nil:
		return tx.ctx.Err()
	}
	return nil
}

// fail classifies err, and remembers it unless the caller may well go on after it.
func (tx *Tx) fail(what, id string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s %q: %w", what, id, ErrNotFound)
	}
	err = translate(tx.file, err)
	if id == "" {
		err = fmt.Errorf("%s: %w", what, err)
	} else {
		err = fmt.Errorf("%s %q: %w", what, id, err)
	}
	if !errors.Is(err, ErrExists) {
		tx.failed = err
	}
	return err
}

// exec runs a statement of what about the row id and returns how many rows it changed.
func (tx *Tx) exec(what, id, query string, args ...any) (int64, error) {
	if err := tx.usable(true); err != nil {
		return 0, err
	}
	res, err := tx.session.exec(query, args...)
	if err != nil {
		return 0, tx.fail(what, id, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return 0, tx.fail(what, id, err)
	}
	return n, nil
}

// table has what the statements below need to know of one kind of row.
type table[T any] struct {
	what   string          // in errors
	fields func(*T) []any  // pointers in the order of the columns, the id first
	id     func(*T) string // of the row

	put, del, list string
	delete         string // of all rows: a condition has to follow
}

func newTable[T any](what, name, columns string, fields func(*T) []any) *table[T] {
	cols := strings.Split(columns, ", ")
	sets := make([]string, 0, len(cols))
	for _, c := range cols[1:] {
		sets = append(sets, c+" = excluded."+c)
	}
	t := &table[T]{what: what, fields: fields}
	t.id = func(row *T) string { return *fields(row)[0].(*string) }
	t.put = fmt.Sprintf("INSERT INTO %s (%s) VALUES (?%s) ON CONFLICT (id) DO UPDATE SET %s",
		name, columns, strings.Repeat(", ?", len(cols)-1), strings.Join(sets, ", "))
	t.del = fmt.Sprintf("DELETE FROM %s WHERE id = ?", name)
	t.delete = "DELETE FROM " + name
	t.list = fmt.Sprintf("SELECT %s FROM %s", columns, name)
	return t
}

var (
	errNoID     = errors.New("a row needs an id")
	errNoFilter = errors.New("deleting several rows needs a filter: without one all would go")
)

func write[T any](tx *Tx, t *table[T], row T) error {
	id := t.id(&row)
	if id == "" {
		return fmt.Errorf("%s: %w", t.what, errNoID)
	}
	_, err := tx.exec(t.what, id, t.put, t.fields(&row)...)
	return err
}

// get reads the row for which condition (a fixed text with one ?) holds.
func get[T any](tx *Tx, t *table[T], condition, key string) (T, error) {
	var row, none T
	if err := tx.usable(false); err != nil {
		return none, err
	}
	st, err := tx.session.stmt(t.list + condition)
	if err != nil {
		return none, tx.fail(t.what, key, err)
	}
	if err := st.QueryRowContext(context.Background(), key).Scan(t.fields(&row)...); err != nil {
		return none, tx.fail(t.what, key, err)
	}
	return row, nil
}

func remove[T any](tx *Tx, t *table[T], id string) error {
	_, err := tx.exec(t.what, id, t.del, id)
	return err
}

func list[T any](tx *Tx, t *table[T], w where) (_ []T, err error) {
	if err := tx.usable(false); err != nil {
		return nil, err
	}
	st, err := tx.session.stmt(t.list + w.String() + " ORDER BY id")
	if err != nil {
		return nil, tx.fail(t.what, "", err)
	}
	rows, err := st.QueryContext(context.Background(), w.args...)
	if err != nil {
		return nil, tx.fail(t.what, "", err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		if err := tx.usable(false); err != nil {
			return nil, err
		}
		var row T
		if err := rows.Scan(t.fields(&row)...); err != nil {
			return nil, tx.fail(t.what, "", err)
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		return nil, tx.fail(t.what, "", err)
	}
	return all, nil
}

// stamp is a time.Time as it is kept: nanoseconds since 1970, 0 for none.
type stamp time.Time

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Value implements driver.Valuer.
func (s *stamp) Value() (driver.Value, error) { return nanos(time.Time(*s)), nil }

// Scan implements sql.Scanner.
func (s *stamp) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("a time is kept as a number, not as %T", v)
	}
	*s = stamp{}
	if n != 0 {
		*s = stamp(time.Unix(0, n).UTC())
	}
	return nil
}
