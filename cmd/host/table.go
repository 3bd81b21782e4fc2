package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/slipway-run/slipway/internal/printable"
)

// table writes rows of cells that stand one below the other. What is in a cell may come from anybody.
type table struct{ w *tabwriter.Writer }

// trusted is a cell that is written as it is: with slipway's own colours.
type trusted string

func newTable(to io.Writer, heads ...any) *table {
	t := &table{tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)}
	if len(heads) > 0 {
		t.row(heads...)
	}
	return t
}

func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		if own, ok := c.(trusted); ok {
			texts[i] = string(own)
			continue
		}
		texts[i] = printable.Line(fmt.Sprint(c))
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t")) // the last flush tells a failure
}

// end writes what is left of it, and tells whether all was written.
func (t *table) end() error { return t.w.Flush() }

// tell writes a line of slipway's own, in which may be what comes from anybody, as wide as a terminal has room.
func (o *outlet) tell(text string) error {
	_, err := fmt.Fprintln(o, wrap(printable.Message(text), o.width()))
	return err
}

// writeJSON writes a value as a line of JSON that is safe to be shown.
func (o *outlet) writeJSON(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = o.Write(append(printable.JSON(text), '\n'))
	return err
}
