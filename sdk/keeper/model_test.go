package keeper

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slipway-run/slipway/sdk"
)

// pattern gives bytes that tell where they belong.
func pattern(from, to sdk.Position) []byte {
	b := make([]byte, 0, to-from)
	for p := from; p < to; p++ {
		b = append(b, byte(p*131>>3^p>>9^p))
	}
	return b
}

// model is what a journal must be, said as plainly as possible. Its bytes are the pattern's.
type model struct {
	spill     int
	whenFull  sdk.WhenFull
	streams   []sdk.Stream // of each byte
	acked     int
	oldest    int
	exit      *sdk.Exit
	abandoned bool
	closed    bool
	newest    *As
}

func (m *model) end() int { return len(m.streams) }

func (m *model) write(stream sdk.Stream, n int) (written int) {
	if m.closed {
		return n
	}
	if m.whenFull == sdk.BlockWriter {
		n = min(n, m.spill-(m.end()-m.oldest))
	}
	for range n {
		m.streams = append(m.streams, stream)
	}
	m.oldest = max(m.oldest, m.end()-m.spill)
	return n
}

func (m *model) ack(p int) {
	m.acked = max(m.acked, p)
	m.oldest = max(m.oldest, p)
}

func (m *model) state() sdk.ProcessState {
	switch {
	case m.exit != nil:
		return sdk.ProcessExited
	case m.abandoned:
		return sdk.ProcessAbandoned
	}
	return sdk.ProcessRunning
}

func TestJournalBehavesAsItsModel(t *testing.T) {
	for _, store := range []string{"memory", "segments"} {
		t.Run(store, func(t *testing.T) {
			parent, n := t.TempDir(), 0
			rapid.Check(t, func(t *rapid.T) {
				m := &model{
					spill:    rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(1, 40_000)).Draw(t, "spill"),
					whenFull: rapid.SampledFrom([]sdk.WhenFull{sdk.BlockWriter, sdk.DropOldest}).Draw(t, "when full"),
				}
				spec := sdk.ProcessSpec{Spill: int64(m.spill), WhenFull: m.whenFull}
				n++
				dir := filepath.Join(parent, strconv.Itoa(n))
				j := New(spec, nil)
				var s *Segments
				if store == "segments" {
					s = NewSegments(dir, spec)
					defer func() { s.Seal(); _ = os.RemoveAll(dir) }()
					j = New(spec, s)
				}
				write := func(t *rapid.T) {
					stream := rapid.SampledFrom([]sdk.Stream{sdk.Stdout, sdk.Stderr}).Draw(t, "stream")
					size := rapid.OneOf(rapid.IntRange(1, 150), rapid.IntRange(1, 20_000)).Draw(t, "bytes")
					full, cancel := context.WithCancel(t.Context())
					cancel() // so that a full journal does not block, but says so
					end := sdk.Position(m.end())
					got, err := j.Write(full, stream, pattern(end, end+sdk.Position(size)))
					if want := m.write(stream, size); got != want {
						t.Fatalf("wrote %d of %d bytes, want %d", got, size, want)
					}
					if blocked := got < size; blocked != errors.Is(err, context.Canceled) {
						t.Fatalf("wrote %d of %d: %v", got, size, err)
					}
				}
				t.Repeat(map[string]func(*rapid.T){
					"write":      write,
					"write more": write,
					"end": func(t *rapid.T) {
						switch rapid.IntRange(0, 15).Draw(t, "how") { // mostly not at all, or little would be written
						case 1:
							j.CloseOutput()
							m.closed = true
						case 2:
							e := sdk.Exit{Code: rapid.IntRange(0, 255).Draw(t, "code")}
							j.Exit(e)
							if m.exit == nil && !m.abandoned {
								m.exit, m.closed = &e, true
							}
						case 3:
							j.Abandon()
							m.abandoned = m.abandoned || m.exit == nil
							m.closed = true
						}
					},
					"follow": func(t *rapid.T) { followAndCompare(t, j, m, write) },
					"killed": func(t *rapid.T) {
						if s != nil {
							compareWithWhatIsLeft(t, dir, m, int(s.end))
						}
					},
					"disk fails": func(*rapid.T) {
						if s != nil && s.file != nil {
							_ = s.file.Close() // the next write fails
						}
					},
					"disk is tried again": func(*rapid.T) {
						if s != nil {
							s.retry = time.Time{}
						}
					},
					"": func(t *rapid.T) {
						oldest, end := j.store.Bounds()
						if int(oldest) != m.oldest || int(end) != m.end() || j.End() != end || j.State() != m.state() {
							t.Fatalf("from %d to %d, %v; want %d to %d, %v", oldest, end, j.State(), m.oldest, m.end(), m.state())
						}
						checkSize(t, dir, m)
					},
				})
			})
		})
	}
}

// checkSize holds the bound on the files of a directory.
func checkSize(t *rapid.T, dir string, m *model) {
	entries, _ := os.ReadDir(dir)
	size := int64(0)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	segment := int64(max(m.spill/segmentsOfSpill, minSegmentBytes) + recordBytes + headerBytes)
	if limit := int64(m.spill) + segment + int64(recordsFor(int64(m.spill)))*headerBytes; size > limit {
		t.Fatalf("%d bytes of files for a spill of %d", size, m.spill)
	}
	if m.state() != sdk.ProcessRunning && m.oldest == m.end() && (size > 0 || len(entries) > 1) {
		t.Fatalf("%d files with %d bytes are left as a tombstone", len(entries), size)
	}
}

// compareWithWhatIsLeft reads the files as if the keeper were killed now, which have all up to a position.
func compareWithWhatIsLeft(t *rapid.T, dir string, m *model, want int) {
	store, err := OpenSegments(os.DirFS(dir), 0)
	if err != nil {
		t.Fatal(err)
	}
	oldest, end := store.Bounds()
	if int(oldest) > m.oldest || int(end) != want && want > m.oldest {
		t.Fatalf("from %d to %d is left of %d to %d, %d in files", oldest, end, m.oldest, m.end(), want)
	}
	from := rapid.IntRange(m.acked, m.end()).Draw(t, "from")
	at := from
	exit := m.exit
	if exit == nil && rapid.Bool().Draw(t, "before the exit was recorded") {
		exit = &sdk.Exit{Code: 7}
	}
	var got *sdk.Exit
	err = Ended("p", store, exit).Follow(t.Context(), sdk.Position(from), sdk.Follow{
		Opened: func(o sdk.Opened) error {
			if (o.State == sdk.ProcessExited) != (exit != nil) || (o.State == sdk.ProcessAbandoned) != (exit == nil) {
				t.Fatalf("opened %+v, exit %v", o, exit)
			}
			return nil
		},
		Output: func(records []sdk.Record) error {
			at = compareRecords(t, m, max(int(oldest), from), at, records)
			return nil
		},
		Exit: func(e sdk.Exit) error { got = &e; return nil },
	})
	if at != max(int(end), from) {
		t.Fatalf("ended at %d of %d: %v", at, end, err)
	}
	if exit != nil && (err != nil || got == nil || *got != *exit) || exit == nil && (got != nil || !errors.Is(err, sdk.ReasonAbandoned)) {
		t.Fatalf("exit %v, want %v: %v", got, exit, err)
	}
}

// compareRecords goes on from a position over records, and gives the position after them.
func compareRecords(t *rapid.T, m *model, oldest, at int, records []sdk.Record) int {
	if len(records) == 0 {
		t.Fatal("no records")
	}
	for _, r := range records {
		if int(r.Position) != at {
			t.Fatalf("record at %d, want %d", r.Position, at)
		}
		if r.IsGap() {
			if at >= oldest || int(r.GapTo) != oldest || r.Data != nil || r.Stream != 0 {
				t.Fatalf("gap %+v at %d, oldest kept is %d", r, at, oldest)
			}
			at = oldest
			continue
		}
		if len(r.Data) == 0 || len(r.Data) > sdk.MaxRecordBytes || !bytes.Equal(r.Data, pattern(r.Position, r.End())) {
			t.Fatalf("%d bytes differ from what was written at %d", len(r.Data), at)
		}
		for i := range r.Data {
			if m.streams[at+i] != r.Stream {
				t.Fatalf("byte %d is of %v, not of %v", at+i, m.streams[at+i], r.Stream)
			}
		}
		at += len(r.Data)
	}
	return at
}

// followAndCompare follows from anywhere, to anywhere, with acknowledgements of all kinds.
func followAndCompare(t *rapid.T, j *Journal, m *model, write func(*rapid.T)) {
	from := rapid.OneOf(rapid.IntRange(m.acked, m.end()), rapid.IntRange(0, m.end())).Draw(t, "from")
	stop := rapid.IntRange(from, m.end()).Draw(t, "stop")
	as := As{Name: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "name"), Resume: rapid.Bool().Draw(t, "resume"),
		Caller: rapid.SampledFrom([]string{"", "c", "d"}).Draw(t, "caller"), Turn: rapid.Int64Range(1, 4).Draw(t, "turn")}
	acks := make(chan sdk.Position)
	at, exits := from, 0
	superseded := m.newest != nil && (as.Resume && as.Name != m.newest.Name || as.Caller != "" && as.Caller == m.newest.Caller && as.Turn < m.newest.Turn)
	refused := !superseded && from < m.acked
	if !refused && !superseded {
		m.ack(from) // whoever follows from a position has all before it
		m.newest = &as
	}
	ackSome := func() {
		p := rapid.IntRange(-1, m.end()+1).Draw(t, "ack")
		acks <- sdk.Position(p)
		acks <- -1 // is taken only after the one before was dealt with
		if p <= at {
			m.ack(p)
		}
	}
	enough := func() bool { return at >= stop && (m.state() == sdk.ProcessRunning || at < m.end()) }
	err := j.FollowAs(t.Context(), as, sdk.Position(from), sdk.Follow{
		Acks: acks,
		Opened: func(o sdk.Opened) error {
			if o.State != m.state() {
				t.Fatalf("opened %+v, want %v", o, m.state())
			}
			if enough() {
				return errEnough
			}
			return nil
		},
		Output: func(records []sdk.Record) error {
			at = compareRecords(t, m, m.oldest, at, records)
			ackSome()
			if rapid.Bool().Draw(t, "and writes meanwhile") {
				write(t)
				if at < m.end() {
					return nil
				}
			}
			if enough() {
				return errEnough
			}
			return nil
		},
		Exit: func(e sdk.Exit) error {
			exits++
			if at != m.end() || e.Code != m.exit.Code {
				t.Fatalf("exit %+v at %d of %d, want %+v", e, at, m.end(), m.exit)
			}
			ackSome()
			if m.acked < at {
				return errEnough
			}
			return nil
		},
	})
	var e *sdk.Error
	switch {
	case superseded:
		if !errors.Is(err, sdk.ReasonSuperseded) || at != from {
			t.Fatalf("followed as %+v after %+v: %v", as, *m.newest, err)
		}
	case refused:
		if !errors.As(err, &e) || e.Class != sdk.FailedPrecondition || e.Reason != sdk.ReasonOutputGap || int(e.Position) != m.oldest || exits > 0 {
			t.Fatalf("followed from %d below %d: %v", from, m.acked, err)
		}
	case err == nil:
		if exits != 1 || m.acked < m.end() {
			t.Fatalf("ended after %d exits, with %d of %d acknowledged", exits, m.acked, m.end())
		}
	case errors.Is(err, sdk.ReasonAbandoned):
		if !m.abandoned || at != m.end() || exits > 0 {
			t.Fatalf("abandoned at %d of %d: %v", at, m.end(), m.state())
		}
	case err != errEnough:
		t.Fatal(err)
	}
}
