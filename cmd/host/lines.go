package main

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/internal/printable"
	"github.com/slipway-run/slipway/sdk"
)

// maxLine is where a longer line is broken for showing.
const maxLine = 16 << 10

// lineSink shows a step's output by whole lines below its name, all those of a record at once, and spells out what a terminal would obey: a step could
// overwrite its name, or write as another. It does not if it was told to show all as it is.
type lineSink struct {
	view  *textView
	step  string
	lines [3][]byte // by stream: what has no end of line yet
	ready []byte    // lines of one record with their names
}

func (s *lineSink) record(rec spool.Record) {
	if rec.GapTo > rec.Position {
		s.flush()
		s.view.gap(s.step, rec)
		return
	}
	to := s.view.outlet(sdk.Stream(rec.Stream))
	pending := &s.lines[min(int(rec.Stream), len(s.lines)-1)]
	for data := rec.Data; len(data) > 0; {
		if len(*pending) >= maxLine && data[0] != '\n' {
			n := len(*pending) - begun(*pending)
			s.add(to, (*pending)[:n])
			*pending = append((*pending)[:0], (*pending)[n:]...)
		}
		room := maxLine - len(*pending)
		n := bytes.IndexByte(data[:min(len(data), room+1)], '\n') + 1
		whole := n > 0
		if !whole {
			n = min(len(data), room)
		}
		*pending = append(*pending, data[:n]...)
		data = data[n:]
		if whole {
			s.add(to, *pending)
			*pending = (*pending)[:0]
		}
	}
	s.write(to)
}

func (s *lineSink) end(failure error) {
	s.flush()
	s.view.broken(s.step, failure)
}

func (s *lineSink) flush() {
	for i, l := range s.lines {
		if len(l) > 0 {
			to := s.view.outlet(sdk.Stream(i))
			s.add(to, l)
			s.write(to)
		}
		s.lines[i] = nil
	}
}

// add takes one line, with its end or without.
func (s *lineSink) add(to *outlet, line []byte) {
	s.ready = append(s.ready, s.view.name(to, s.step)...)
	s.ready = append(s.ready, " | "...)
	if s.view.a.raw {
		s.ready = append(s.ready, line...)
	} else {
		s.ready = append(s.ready, printable.Output(line)...)
	}
	if line[len(line)-1] != '\n' {
		s.ready = append(s.ready, '\n')
	}
}

// begun is how many bytes of a character that is not whole yet are at the end.
func begun(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

func (s *lineSink) write(to *outlet) {
	if len(s.ready) > 0 {
		s.view.screen.write(to, s.ready)
	}
	s.ready = s.ready[:0]
}

// rawSink shows a step's output as it is.
type rawSink struct {
	view *textView
	step string
}

func (s *rawSink) record(rec spool.Record) {
	if rec.GapTo > rec.Position {
		s.view.gap(s.step, rec)
		return
	}
	s.view.screen.write(s.view.outlet(sdk.Stream(rec.Stream)), rec.Data)
}

func (s *rawSink) end(failure error) { s.view.broken(s.step, failure) }

func (v *textView) outlet(s sdk.Stream) *outlet {
	if s == sdk.Stderr {
		return v.a.err
	}
	return v.a.out
}

func (v *textView) gap(step string, rec spool.Record) {
	v.note(step, fmt.Sprintf("%s of output were dropped here", byteSize(rec.GapTo-rec.Position)))
}

// broken says that the rest of a step's output cannot be shown.
func (v *textView) broken(step string, failure error) {
	if failure != nil {
		v.note(step, "its output cannot be shown any more: "+failure.Error())
	}
}
