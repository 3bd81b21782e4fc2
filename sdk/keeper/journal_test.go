package keeper

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/slipway-run/slipway/sdk"
)

var errEnough = errors.New("the test has seen enough")

// maker makes the journal of a new process.
type maker func(*testing.T, sdk.ProcessSpec) *Journal

func makers() map[string]maker {
	return map[string]maker{
		"memory": func(_ *testing.T, spec sdk.ProcessSpec) *Journal { return New(spec, nil) },
		"segments": func(t *testing.T, spec sdk.ProcessSpec) *Journal {
			s := NewSegments(filepath.Join(t.TempDir(), "journal"), spec)
			t.Cleanup(s.Seal)
			return New(spec, s)
		},
	}
}

// TestJournal holds what no store may change.
func TestJournal(t *testing.T) {
	for name, test := range map[string]func(*testing.T, maker){
		"blocks the writer until acknowledged":   testBlocksTheWriterUntilAcknowledged,
		"without acknowledgement stays whole":    testWithoutAcknowledgementStaysWhole,
		"shrinks to a tombstone":                 testShrinksToATombstone,
		"ends once and for ever":                 testEndsOnceAndForEver,
		"newest follower wins":                   testNewestFollowerWins,
		"returns the callers errors":             testReturnsTheCallersErrors,
		"ends followers when abandoned":          testEndsFollowersWhenAbandoned,
		"ends followers when gone":               testEndsFollowersWhenGone,
		"bounds the bookkeeping of tiny records": testBoundsTheBookkeepingOfTinyRecords,
	} {
		for store, journal := range makers() {
			t.Run(name+"/"+store, func(t *testing.T) { test(t, journal) })
		}
	}
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

func testBlocksTheWriterUntilAcknowledged(t *testing.T, journal maker) {
	synctest.Test(t, func(t *testing.T) {
		j := journal(t, sdk.ProcessSpec{Spill: 10})
		wrote := make(chan error, 1)
		go func() {
			_, err := j.Write(t.Context(), sdk.Stdout, []byte("0123456789abcdef"))
			wrote <- err
			j.Exit(sdk.Exit{})
		}()
		synctest.Wait()
		select {
		case <-wrote:
			t.Fatal("16 bytes went into a journal of 10")
		default:
		}
		var c collector
		if err := j.Follow(t.Context(), 0, c.follow()); err != nil {
			t.Fatal(err)
		}
		if err := <-wrote; err != nil || c.out[sdk.Stdout].String() != "0123456789abcdef" {
			t.Fatalf("%v, got %q", err, c.out[sdk.Stdout].String())
		}
	})
}

func testWithoutAcknowledgementStaysWhole(t *testing.T, journal maker) {
	j := journal(t, sdk.ProcessSpec{})
	_, _ = j.Write(t.Context(), sdk.Stdout, []byte("hello"))
	j.Exit(sdk.Exit{Code: 3})
	for range 2 { // the second time as the first: nothing was acknowledged
		var c collector
		f := c.follow()
		acks := make(chan sdk.Position)
		close(acks)
		f.Acks = acks
		if err := j.Follow(t.Context(), 0, f); err != nil || c.out[sdk.Stdout].String() != "hello" || c.exit.Code != 3 {
			t.Fatalf("%v, %q, %v", err, c.out[sdk.Stdout].String(), c.exit)
		}
	}
}

func testEndsOnceAndForEver(t *testing.T, journal maker) {
	exited, abandoned := journal(t, sdk.ProcessSpec{}), journal(t, sdk.ProcessSpec{})
	exited.Exit(sdk.Exit{Code: 3})
	abandoned.Abandon()
	for _, j := range []*Journal{exited, abandoned} { // whatever comes later
		j.Exit(sdk.Exit{})
		j.Abandon()
	}
	if state, exit := exited.Status(); state != sdk.ProcessExited || exit == nil || exit.Code != 3 {
		t.Errorf("exited with 3, and then %v with %v", state, exit)
	}
	if state, exit := abandoned.Status(); state != sdk.ProcessAbandoned || exit != nil {
		t.Errorf("abandoned, and then %v with %v", state, exit)
	}
	var c collector
	if err := exited.Follow(t.Context(), 0, c.follow()); err != nil || c.exit == nil || c.exit.Code != 3 {
		t.Errorf("followed after all that: %v, exit %v", err, c.exit)
	}
}

func testShrinksToATombstone(t *testing.T, journal maker) {
	j := journal(t, sdk.ProcessSpec{})
	_, _ = j.Write(t.Context(), sdk.Stderr, []byte("hello"))
	j.Exit(sdk.Exit{Code: 3})
	if err := j.Follow(t.Context(), 0, sdk.Follow{}); err != nil {
		t.Fatal(err)
	}
	if oldest, end := j.store.Bounds(); oldest != 5 || end != 5 {
		t.Errorf("from %d to %d is left", oldest, end)
	}
	var c collector
	if err := j.Follow(t.Context(), 5, c.follow()); err != nil || c.exit == nil || c.exit.Code != 3 {
		t.Errorf("from the end: %v, %v", err, c.exit)
	}
	err := j.Follow(t.Context(), 4, c.follow())
	var e *sdk.Error
	if !errors.As(err, &e) || e.Reason != sdk.ReasonOutputGap || e.Position != 5 {
		t.Errorf("from below the end: %v", err)
	}
	if err := j.Follow(t.Context(), 6, c.follow()); !errors.Is(err, sdk.Invalid) {
		t.Errorf("from beyond the end: %v", err)
	}
}

func testNewestFollowerWins(t *testing.T, journal maker) {
	j := journal(t, sdk.ProcessSpec{})
	_, _ = j.Write(t.Context(), sdk.Stdout, []byte("hello"))
	oldAcks := make(chan sdk.Position)
	holding, hold := make(chan struct{}), make(chan struct{})
	older := make(chan error, 1)
	go func() {
		older <- j.Follow(t.Context(), 0, sdk.Follow{
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
	exited := make(chan struct{})
	f.Exit = func(sdk.Exit) error { close(exited); return nil }
	go func() { newer <- j.Follow(t.Context(), 0, f) }()
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
	j.Exit(sdk.Exit{})
	<-exited // what was not delivered cannot be acknowledged
	acks <- 5
	if err := <-newer; err != nil || c.out[sdk.Stdout].String() != "hello" {
		t.Errorf("newer: %v, %q", err, c.out[sdk.Stdout].String())
	}
}

// slowStore has readers that are held up.
type slowStore struct {
	Store
	read func()
}

func (s slowStore) Reader() Reader { return slowReader{s.Store.Reader(), s.read} }

type slowReader struct {
	Reader
	read func()
}

func (r slowReader) Read(from sdk.Position) ([]sdk.Record, error) {
	r.read()
	return r.Reader.Read(from)
}

// What a newer follower acknowledges while an older one reads is no gap to the older one.
func TestJournalsOlderFollowerIsToldNothingWrong(t *testing.T) {
	var j *Journal
	var once sync.Once
	j = New(sdk.ProcessSpec{}, slowStore{newMemory(1 << 20), func() {
		once.Do(func() {
			if err := followUntil(t, j, 3); err != nil {
				t.Error(err)
			}
		})
	}})
	_, _ = j.Write(t.Context(), sdk.Stdout, []byte("hello"))
	err := j.Follow(t.Context(), 0, sdk.Follow{Output: func(records []sdk.Record) error {
		t.Errorf("told of %+v", records)
		return nil
	}})
	if !errors.Is(err, sdk.ReasonSuperseded) {
		t.Error(err)
	}
}

func testReturnsTheCallersErrors(t *testing.T, journal maker) {
	j := journal(t, sdk.ProcessSpec{Stdin: true})
	_, _ = j.Write(t.Context(), sdk.Stdout, []byte("hello"))
	fail := errors.New("of the caller")
	follows := map[string]sdk.Follow{
		"opened": {Opened: func(sdk.Opened) error { return fail }},
		"output": {Output: func([]sdk.Record) error { return fail }},
		"stdin":  {Stdin: io.MultiReader(strings.NewReader("x"), iotest.ErrReader(fail))},
	}
	for name, f := range follows {
		if f.Acks == nil {
			f.Acks = make(chan sdk.Position)
		}
		if err := j.Follow(t.Context(), 0, f); err != fail {
			t.Errorf("%s: %v", name, err)
		}
	}
	if j.stdin.closed {
		t.Error("a reader's failure closed stdin")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Follow(ctx, 0, sdk.Follow{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	j.Exit(sdk.Exit{})
	if err := j.Follow(t.Context(), 0, sdk.Follow{Exit: func(sdk.Exit) error { return io.EOF }}); err != io.EOF {
		t.Errorf("exit: %v", err)
	}
}

func testEndsFollowersWhenAbandoned(t *testing.T, journal maker) {
	j := journal(t, sdk.ProcessSpec{Stdin: true})
	ended := make(chan error, 1)
	var c collector
	f := c.follow()
	f.Acks = make(chan sdk.Position) // never: what there is comes all the same
	f.Opened = func(sdk.Opened) error { go j.Abandon(); return nil }
	_, _ = j.Write(t.Context(), sdk.Stdout, []byte("hello"))
	go func() { ended <- j.Follow(t.Context(), 0, f) }()
	if err := <-ended; !errors.Is(err, sdk.ReasonAbandoned) || c.out[sdk.Stdout].String() != "hello" || c.exit != nil {
		t.Errorf("%v, %q, %v", err, c.out[sdk.Stdout].String(), c.exit)
	}
	if n, err := j.ReadStdin(t.Context(), make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("stdin: %d, %v", n, err)
	}
	j.Exit(sdk.Exit{})
	if state, exit := j.Status(); state != sdk.ProcessAbandoned || exit != nil {
		t.Error("an exit after it was abandoned")
	}
}

func testEndsFollowersWhenGone(t *testing.T, journal maker) {
	j := journal(t, sdk.ProcessSpec{})
	gone := sdk.NewNotFound(sdk.KindContainer, "c")
	opened, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- j.Follow(t.Context(), 0, sdk.Follow{Opened: func(sdk.Opened) error { close(opened); return nil }})
	}()
	<-opened
	j.Abort(gone)
	if err := <-ended; err != gone {
		t.Errorf("the follower: %v", err)
	}
	if err := j.Follow(t.Context(), 0, sdk.Follow{}); err != gone {
		t.Errorf("a later one: %v", err)
	}
	if n, err := j.Write(t.Context(), sdk.Stdout, make([]byte, 100)); n != 100 || err != nil {
		t.Errorf("a writer: %d, %v", n, err)
	}
}

func testBoundsTheBookkeepingOfTinyRecords(t *testing.T, journal maker) {
	for _, whenFull := range []sdk.WhenFull{sdk.BlockWriter, sdk.DropOldest} {
		j := journal(t, sdk.ProcessSpec{WhenFull: whenFull, Spill: 64 << 10})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range 10_000 {
			_, _ = j.Write(ctx, sdk.Stdout+sdk.Stream(i%2), []byte("x"))
		}
		n, limit := 0, recordsFor(64<<10)
		switch s := j.store.(type) {
		case *memory:
			n = len(s.records)
		case *Segments:
			n = s.total
		}
		if n == 0 || n > limit {
			t.Errorf("%v: %d records", whenFull, n)
		}
		for range 3 * limit { // and there is always room again
			_, end := j.store.Bounds()
			if err := followUntil(t, j, end); err != nil {
				t.Fatal(err)
			}
			if n, err := j.Write(ctx, sdk.Stdout, []byte("y")); n != 1 {
				t.Fatalf("%v: no room after all was acknowledged: %v", whenFull, err)
			}
		}
	}
}

// followUntil acknowledges what there is before a position.
func followUntil(t *testing.T, j *Journal, to sdk.Position) error {
	err := j.Follow(t.Context(), to, sdk.Follow{Opened: func(sdk.Opened) error { return errEnough }})
	if err == errEnough {
		return nil
	}
	return err
}

// TestStatusIsOfOneMoment: a list that is made while a process ends shows it running, or exited with its exit.
func TestStatusIsOfOneMoment(t *testing.T) {
	for range 1000 {
		j := New(sdk.ProcessSpec{}, nil)
		var ending sync.WaitGroup
		ending.Go(func() { j.CloseOutput(); j.Exit(sdk.Exit{Code: 7}) })
		for state := sdk.ProcessRunning; state == sdk.ProcessRunning; {
			var exit *sdk.Exit
			if state, exit = j.Status(); (state == sdk.ProcessExited) != (exit != nil) {
				t.Fatalf("state %v with exit %v", state, exit)
			}
		}
		ending.Wait()
	}
}
