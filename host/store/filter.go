package store

import (
	"strings"
	"time"
)

// where collects conditions on columns; a zero value asks for nothing.
type where struct {
	conds []string
	args  []any
}

func (w *where) add(cond string, args ...any) {
	w.conds = append(w.conds, cond)
	w.args = append(w.args, args...)
}

func (w *where) equal(column, value string) {
	if value != "" {
		// The second half lets SQLite use an index that leaves empty values out.
		w.add(column+" = ? AND "+column+" <> ''", value)
	}
}

func (w *where) in(column string, values []string) {
	if len(values) == 0 {
		return
	}
	args := make([]any, 0, len(values))
	for _, v := range values {
		args = append(args, v)
	}
	w.add(column+" IN (?"+strings.Repeat(", ?", len(values)-1)+")", args...)
}

// prefix compares bytes, as the index does; LIKE would fold case and has wildcards.
func (w *where) prefix(column, prefix string) {
	if prefix == "" {
		return
	}
	w.add(column+" >= ? AND "+column+" <> ''", prefix)
	if end := after(prefix); end != "" {
		w.add(column+" < ?", end)
	}
}

// before leaves out rows whose time is zero.
func (w *where) before(column string, t time.Time) {
	if !t.IsZero() {
		w.add(column+" < ? AND "+column+" <> 0", nanos(t))
	}
}

func (w *where) String() string {
	if len(w.conds) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conds, " AND ")
}

// after is the least string greater than every one that begins with prefix;
// empty if there is none.
func after(prefix string) string {
	b := []byte(prefix)
	for len(b) > 0 {
		if last := len(b) - 1; b[last] < 0xff {
			b[last]++
			return string(b)
		}
		b = b[:len(b)-1]
	}
	return ""
}
