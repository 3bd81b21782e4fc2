package memory

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/slipway-run/slipway/sdk"
)

var errEnough = errors.New("the test has seen enough")

// journalModel is what a journal must be, said as plainly as possible.
type journalModel struct {
	spill         int
	whenFull      sdk.WhenFull
	data          []byte
	streams       []sdk.Stream // of each byte
	acked, oldest int
	exit          *sdk.Exit
	closed        bool
}

func (m *journalModel) write(stream sdk.Stream, p []byte) (written int) {
	if m.closed {
		return len(p)
	}
	if m.whenFull == sdk.BlockWriter {
		p = p[:min(len(p), m.spill-(len(m.data)-m.oldest))]
	}
	m.data = append(m.data, p...)
	for range p {
		m.streams = append(m.streams, stream)
	}
	m.oldest = max(m.oldest, len(m.data)-m.spill)
	return len(p)
}

func (m *journalModel) ack(p int) {
	m.acked = max(m.acked, p)
	m.oldest = max(m.oldest, p)
}

func TestJournalBehavesAsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &journalModel{
			spill:    rapid.IntRange(1, 100).Draw(t, "spill"),
			whenFull: rapid.SampledFrom([]sdk.WhenFull{sdk.BlockWriter, sdk.DropOldest}).Draw(t, "when full"),
		}
		j := newJournal(sdk.ProcessSpec{Spill: int64(m.spill), WhenFull: m.whenFull})
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				stream := rapid.SampledFrom([]sdk.Stream{sdk.Stdout, sdk.Stderr}).Draw(t, "stream")
				p := rapid.SliceOfN(rapid.Byte(), 1, 150).Draw(t, "bytes")
				full, cancel := context.WithCancel(t.Context())
				cancel() // so that a full journal does not block, but says so
				got, err := j.write(full, stream, p)
				if want := m.write(stream, p); got != want {
					t.Fatalf("wrote %d of %d bytes, want %d", got, len(p), want)
				}
				if blocked := got < len(p); blocked != errors.Is(err, context.Canceled) {
					t.Fatalf("wrote %d of %d: %v", got, len(p), err)
				}
			},
			"cut": func(t *rapid.T) {
				j.closeOutput()
				m.closed = true
			},
			"exit": func(t *rapid.T) {
				if m.exit == nil {
					m.exit = &sdk.Exit{Code: rapid.IntRange(0, 255).Draw(t, "code")}
					m.closed = true
					j.finish(*m.exit)
				}
			},
			"follow": func(t *rapid.T) { followAndCompare(t, j, m) },
			"": func(t *rapid.T) {
				if kept := int(j.end - j.oldest); kept > m.spill {
					t.Fatalf("%d bytes kept, more than %d", kept, m.spill)
				}
			},
		})
	})
}

// followAndCompare follows from anywhere, to anywhere, with acknowledgements of all kinds.
func followAndCompare(t *rapid.T, j *journal, m *journalModel) {
	from := rapid.IntRange(0, len(m.data)).Draw(t, "from")
	stop := rapid.IntRange(from, len(m.data)).Draw(t, "stop")
	acks := make(chan sdk.Position)
	at, exits := from, 0
	refused := from < m.acked
	if !refused {
		m.ack(from) // whoever follows from a position has all before it
	}
	ackSome := func() {
		p := rapid.IntRange(-1, len(m.data)+1).Draw(t, "ack")
		acks <- sdk.Position(p)
		acks <- -1 // is taken only after the one before was dealt with
		if p <= at {
			m.ack(p)
		}
	}
	oldest := m.oldest
	err := j.follow(t.Context(), sdk.Position(from), sdk.Follow{
		Acks: acks,
		Opened: func(o sdk.Opened) error {
			if int(o.Oldest) != m.oldest || (o.State == sdk.ProcessExited) != (m.exit != nil) {
				t.Fatalf("opened %+v, want oldest %d and exit %v", o, m.oldest, m.exit)
			}
			if at == stop && (m.exit == nil || at < len(m.data)) {
				return errEnough
			}
			return nil
		},
		Output: func(records []sdk.Record) error {
			for _, r := range records {
				if int(r.Position) != at {
					t.Fatalf("record at %d, want %d", r.Position, at)
				}
				if r.IsGap() {
					if at >= oldest || int(r.GapTo) != oldest || r.Data != nil {
						t.Fatalf("gap %+v at %d, oldest kept is %d", r, at, oldest)
					}
					at = oldest
					continue
				}
				if len(r.Data) == 0 || !bytes.Equal(r.Data, m.data[at:at+len(r.Data)]) || r.Stream != m.streams[at] ||
					bytes.ContainsFunc(streamBytes(m.streams[at:at+len(r.Data)]), func(s rune) bool { return sdk.Stream(s) != r.Stream }) {
					t.Fatalf("record %+v differs from what was written at %d", r, at)
				}
				at += len(r.Data)
			}
			ackSome()
			if at >= stop && (m.exit == nil || at < len(m.data)) {
				return errEnough
			}
			return nil
		},
		Exit: func(e sdk.Exit) error {
			exits++
			if at != len(m.data) || e.Code != m.exit.Code {
				t.Fatalf("exit %+v at %d of %d, want %+v", e, at, len(m.data), m.exit)
			}
			ackSome()
			if m.acked < at {
				return errEnough
			}
			return nil
		},
	})
	switch {
	case refused:
		var e *sdk.Error
		if !errors.As(err, &e) || e.Class != sdk.FailedPrecondition || e.Reason != sdk.ReasonOutputGap || int(e.Position) != m.oldest || exits > 0 {
			t.Fatalf("followed from %d below %d: %v", from, m.acked, err)
		}
	case err == nil:
		if exits != 1 || m.acked < len(m.data) {
			t.Fatalf("ended after %d exits, with %d of %d acknowledged", exits, m.acked, len(m.data))
		}
	case err != errEnough:
		t.Fatal(err)
	}
}

func streamBytes(streams []sdk.Stream) []byte {
	b := make([]byte, len(streams))
	for i, s := range streams {
		b[i] = byte(s)
	}
	return b
}

// collector is a follower that keeps what it got.
type collector struct {
	out  [3]strings.Builder // by stream
	gaps int
	exit *sdk.Exit
}

func (c *collector) follow() sdk.Follow {
	return sdk.Follow{
		Output: func(records []sdk.Record) error {
			for _, r := range records {
				if r.IsGap() {
					c.gaps++
				}
				c.out[r.Stream].Write(r.Data)
			}
			return nil
		},
		Exit: func(e sdk.Exit) error { c.exit = &e; return nil },
	}
}

func TestJournalBlocksTheWriterUntilAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(sdk.ProcessSpec{Spill: 10})
		wrote := make(chan error, 1)
		go func() {
			_, err := j.write(t.Context(), sdk.Stdout, []byte("0123456789abcdef"))
			wrote <- err
			j.finish(sdk.Exit{})
		}()
		synctest.Wait()
		select {
		case <-wrote:
			t.Fatal("16 bytes went into a journal of 10")
		default:
		}
		var c collector
		if err := j.follow(t.Context(), 0, c.follow()); err != nil {
			t.Fatal(err)
		}
		if err := <-wrote; err != nil || c.out[sdk.Stdout].String() != "0123456789abcdef" {
			t.Fatalf("%v, got %q", err, c.out[sdk.Stdout].String())
		}
	})
}

func TestJournalWithoutAcknowledgementStaysWhole(t *testing.T) {
	j := newJournal(sdk.ProcessSpec{})
	_, _ = j.write(t.Context(), sdk.Stdout, []byte("hello"))
	j.finish(sdk.Exit{Code: 3})
	for range 2 { // the second time as the first: nothing was acknowledged
		var c collector
		f := c.follow()
		acks := make(chan sdk.Position)
		close(acks)
		f.Acks = acks
		if err := j.follow(t.Context(), 0, f); err != nil || c.out[sdk.Stdout].String() != "hello" || c.exit.Code != 3 {
			t.Fatalf("%v, %q, %v", err, c.out[sdk.Stdout].String(), c.exit)
		}
	}
}

func TestJournalShrinksToATombstone(t *testing.T) {
	j := newJournal(sdk.ProcessSpec{})
	_, _ = j.write(t.Context(), sdk.Stderr, []byte("hello"))
	j.finish(sdk.Exit{Code: 3})
	if err := j.follow(t.Context(), 0, sdk.Follow{}); err != nil {
		t.Fatal(err)
	}
	if len(j.records) != 0 {
		t.Errorf("%d records are left", len(j.records))
	}
	var c collector
	if err := j.follow(t.Context(), 5, c.follow()); err != nil || c.exit == nil || c.exit.Code != 3 {
		t.Errorf("from the end: %v, %v", err, c.exit)
	}
	err := j.follow(t.Context(), 4, c.follow())
	var e *sdk.Error
	if !errors.As(err, &e) || e.Reason != sdk.ReasonOutputGap || e.Position != 5 {
		t.Errorf("from below the end: %v", err)
	}
	if err := j.follow(t.Context(), 6, c.follow()); !errors.Is(err, sdk.Invalid) {
		t.Errorf("from beyond the end: %v", err)
	}
}

func TestJournalsNewestFollowerWins(t *testing.T) {
	j := newJournal(sdk.ProcessSpec{})
	_, _ = j.write(t.Context(), sdk.Stdout, []byte("hello"))
	oldAcks := make(chan sdk.Position)
	holding, hold := make(chan struct{}), make(chan struct{})
	older := make(chan error, 1)
	go func() {
		older <- j.follow(t.Context(), 0, sdk.Follow{
			Acks:   oldAcks,
			Output: func([]sdk.Record) error { close(holding); <-hold; return nil },
		})
	}()
	<-holding
	newerOpened := make(chan struct{})
	newer := make(chan error, 1)
	var c collector
	f := c.follow()
	acks := make(chan sdk.Position)
	f.Acks = acks
	f.Opened = func(sdk.Opened) error { close(newerOpened); return nil }
	go func() { newer <- j.follow(t.Context(), 0, f) }()
	<-newerOpened
	oldAcks <- 5
	oldAcks <- 5 // the first one was dealt with
	j.mu.Lock()
	if j.acked != 0 {
		t.Error("the acknowledgement of the older follower counted")
	}
	j.mu.Unlock()
	close(hold)
	if err := <-older; !errors.Is(err, sdk.ReasonSuperseded) || !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("older: %v", err)
	}
	j.finish(sdk.Exit{})
	acks <- 5
	if err := <-newer; err != nil || c.out[sdk.Stdout].String() != "hello" {
		t.Errorf("newer: %v, %q", err, c.out[sdk.Stdout].String())
	}
}

func TestJournalReturnsTheCallersErrors(t *testing.T) {
	j := newJournal(sdk.ProcessSpec{Stdin: true})
	_, _ = j.write(t.Context(), sdk.Stdout, []byte("hello"))
	fail := errors.New("of the caller")
	follows := map[string]sdk.Follow{
		"opened": {Opened: func(sdk.Opened) error { return fail }},
		"output": {Output: func([]sdk.Record) error { return fail }},
		"stdin":  {Stdin: io.MultiReader(strings.NewReader("x"), errReader{fail})},
	}
	for name, f := range follows {
		if f.Acks == nil {
			f.Acks = make(chan sdk.Position)
		}
		if err := j.follow(t.Context(), 0, f); err != fail {
			t.Errorf("%s: %v", name, err)
		}
	}
	if j.stdin.closed {
		t.Error("a reader's failure closed stdin")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.follow(ctx, 0, sdk.Follow{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	j.finish(sdk.Exit{})
	if err := j.follow(t.Context(), 0, sdk.Follow{Exit: func(sdk.Exit) error { return io.EOF }}); err != io.EOF {
		t.Errorf("exit: %v", err)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestJournalEndsFollowersWhenGone(t *testing.T) {
	j := newJournal(sdk.ProcessSpec{})
	gone := sdk.NewNotFound(sdk.KindContainer, "c")
	opened, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- j.follow(t.Context(), 0, sdk.Follow{Opened: func(sdk.Opened) error { close(opened); return nil }})
	}()
	<-opened
	j.abort(gone)
	if err := <-ended; err != gone {
		t.Errorf("the follower: %v", err)
	}
	if err := j.follow(t.Context(), 0, sdk.Follow{}); err != gone {
		t.Errorf("a later one: %v", err)
	}
	if n, err := j.write(t.Context(), sdk.Stdout, make([]byte, 100)); n != 100 || err != nil {
		t.Errorf("a writer: %d, %v", n, err)
	}
}

func TestJournalBoundsTheBookkeepingOfTinyRecords(t *testing.T) {
	for _, whenFull := range []sdk.WhenFull{sdk.BlockWriter, sdk.DropOldest} {
		j := newJournal(sdk.ProcessSpec{WhenFull: whenFull, Spill: 64 << 10})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range 10_000 {
			_, _ = j.write(ctx, sdk.Stdout+sdk.Stream(i%2), []byte("x"))
		}
		if len(j.records) > j.maxRecords {
			t.Errorf("%v: %d records", whenFull, len(j.records))
		}
	}
}

func TestStdinResumesWithoutRepeatOrHole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := newJournal(sdk.ProcessSpec{Stdin: true})
		source := bytes.Repeat([]byte("0123456789"), rapid.IntRange(0, 20_000).Draw(t, "size"))
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(source)), 0, 5).Draw(t, "cuts")
		read := make(chan []byte, 1)
		go func() {
			b, _ := io.ReadAll(stdinOf(t.Context(), j))
			read <- b
		}()
		for i, cut := range append(cuts, len(source)) {
			var src io.Reader = &lateReader{}
			err := j.follow(t.Context(), 0, sdk.Follow{
				Opened: func(o sdk.Opened) error {
					if o.StdinGeneration != int64(i+1) {
						t.Fatalf("generation %d, want %d", o.StdinGeneration, i+1)
					}
					rest := source[o.StdinTaken:]
					if i < len(cuts) { // the connection breaks somewhere
						rest = rest[:min(len(rest), cut)]
						src.(*lateReader).Reader = io.MultiReader(bytes.NewReader(rest), errReader{errEnough})
						return nil
					}
					src.(*lateReader).Reader = iotest.DataErrReader(bytes.NewReader(rest))
					j.finishLater(read)
					return nil
				},
				Stdin: src,
			})
			if i < len(cuts) && err != errEnough || i == len(cuts) && err != nil {
				t.Fatalf("follower %d: %v", i, err)
			}
		}
		if got := <-read; !bytes.Equal(got, source) {
			t.Fatalf("the process read %d bytes that are not the %d sent", len(got), len(source))
		}
	})
}

// lateReader is a source that is known only once Opened has told where to begin.
type lateReader struct{ io.Reader }

// finishLater lets the process exit once it has read all.
func (j *journal) finishLater(read chan []byte) {
	go func() {
		b := <-read
		j.finish(sdk.Exit{})
		read <- b
	}()
}

type stdinReader struct {
	ctx context.Context
	j   *journal
}

func stdinOf(ctx context.Context, j *journal) io.Reader { return stdinReader{ctx, j} }

func (r stdinReader) Read(p []byte) (int, error) { return r.j.readStdin(r.ctx, p) }

func TestStdinOfAnOlderFollowerIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(sdk.ProcessSpec{Stdin: true})
		pr, pw := io.Pipe()
		older := make(chan error, 1)
		go func() { older <- j.follow(t.Context(), 0, sdk.Follow{Stdin: pr}) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		newer := make(chan error, 1)
		go func() { newer <- j.follow(ctx, 0, sdk.Follow{}) }() // without stdin: takes over, closes nothing
		if err := <-older; !errors.Is(err, sdk.ReasonSuperseded) {
			t.Errorf("older: %v", err)
		}
		_, _ = pw.Write([]byte("late"))
		_ = pw.Close()
		synctest.Wait()
		if j.stdin.taken != 0 || j.stdin.closed {
			t.Errorf("stdin of the older follower was taken: %+v", j.stdin)
		}
		cancel()
		<-newer
	})
}

func TestStdinIsReadNoFurtherThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(sdk.ProcessSpec{Stdin: true})
		var src countingReader
		ended := make(chan error, 1)
		go func() { ended <- j.follow(t.Context(), 0, sdk.Follow{Stdin: &src}) }()
		synctest.Wait() // nobody reads
		if ahead := src.n - j.stdin.taken; ahead > sdk.MaxStdinAhead || src.n == 0 {
			t.Errorf("%d bytes read ahead", ahead)
		}
		time.Sleep(time.Hour) // still nobody
		j.finish(sdk.Exit{})
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

type countingReader struct{ n int64 }

func (r *countingReader) Read(p []byte) (int, error) { r.n += int64(len(p)); return len(p), nil }
