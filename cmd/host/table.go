package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/slipway-run/slipway/internal/printable"
)

// table writes rows of cells that stand one below the other. What is in a cell may come from anybody.
type table struct {
	to    io.Writer
	width int // of the terminal: a table that is wider has its cells one below the other; 0: any
	rows  [][]string
	heads bool // the first row
}

// trusted is a cell that is written as it is: with slipway's own colours.
type trusted string

func newTable(to io.Writer, heads ...any) *table {
	t := &table{to: to, heads: len(heads) > 0}
	if t.heads {
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
		texts[i] = printable.Cell(fmt.Sprint(c))
	}
	t.rows = append(t.rows, texts)
}

// end writes it, and tells whether all was written.
func (t *table) end() error {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, r := range t.rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	_ = w.Flush() // to memory
	// The head's line is as wide as all columns but the last, whose cells have colours.
	if head, _, _ := strings.Cut(text.String(), "\n"); t.width > 0 && t.heads && utf8.RuneCountInString(head) > t.width {
		text.Reset()
		t.blocks(&text)
	}
	_, err := t.to.Write(text.Bytes())
	return err
}

// blocks writes each row as its first cell with the others below it, each beside its head. Cells that say nothing are left out.
func (t *table) blocks(to io.Writer) {
	w := tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)
	for _, r := range t.rows[1:] {
		fmt.Fprintln(w, r[0])
		for i, cell := range r[1:] {
			if cell != "-" {
				fmt.Fprintf(w, " %s\t%s\n", strings.ToLower(t.rows[0][i+1]), cell)
			}
		}
	}
	_ = w.Flush() // to memory
}

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
