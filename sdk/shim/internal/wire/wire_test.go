package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-run/slipway/sdk"
)

func TestRequestsTakeMoreThanAFrame(t *testing.T) {
	spec := sdk.ProcessSpec{
		ID: "p", Token: "t", Path: "/bin/x", Args: []string{strings.Repeat("a", sdk.MaxArgBytes/2), "\xff\x00\n"}, Env: []string{"A=\xfe"},
		Dir: "/\xff", User: "me", Stdin: true, TTY: &sdk.TTY{Columns: 3}, Spill: 5, WhenFull: sdk.DropOldest,
	}
	var b bytes.Buffer
	if err := NewConn(nil, &b).WriteMessage(KindRequest, Request{Verb: VerbStart, Start: NewStart(spec)}); err != nil {
		t.Fatal(err)
	}
	got, err := NewConn(&b, nil).ReadRequest()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(spec, got.Start.Spec()); diff != "" {
		t.Error(diff)
	}
}

func TestNothingButARequestTakesMoreThanAFrame(t *testing.T) {
	long := Reply{Error: &Failure{Message: strings.Repeat("x", MaxFrame)}}
	if err := NewConn(nil, io.Discard).WriteMessage(KindReply, long); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a reply of more than a frame was sent: %v", err)
	}
	var b bytes.Buffer
	c := NewConn(&b, &b)
	if err := c.Write(KindMore, []byte("{")); err != nil {
		t.Fatal(err)
	}
	var r Reply
	if err := c.ReadMessage(KindReply, &r); !errors.Is(err, ErrProtocol) {
		t.Errorf("a reply of more than a frame was taken: %v", err)
	}
}

func TestEndlessRequestIsRefused(t *testing.T) {
	more := append([]byte{byte(KindMore), 1, 0, 0}, make([]byte, MaxFrame)...)
	read := &countingReader{r: &repeating{b: more}}
	if _, err := NewConn(read, nil).ReadRequest(); !errors.Is(err, ErrProtocol) {
		t.Errorf("got %v", err)
	}
	if read.n > 2*MaxMessage {
		t.Errorf("%d bytes were read of it", read.n)
	}
	empty := &repeating{b: []byte{byte(KindMore), 0, 0, 0}}
	if _, err := NewConn(empty, nil).ReadRequest(); !errors.Is(err, ErrProtocol) {
		t.Errorf("empty parts without end: %v", err)
	}
}

type repeating struct {
	b  []byte
	at int
}

func (r *repeating) Read(p []byte) (int, error) {
	n := copy(p, r.b[r.at:])
	r.at = (r.at + n) % len(r.b)
	return n, nil
}

type countingReader struct {
	r io.Reader
	n int
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.n += n
	return n, err
}

func TestRecords(t *testing.T) {
	at := time.Unix(0, 1234567890)
	big := bytes.Repeat([]byte("0123456789"), MaxFrame/5)
	var b bytes.Buffer
	c := NewConn(&b, &b)
	for _, r := range []sdk.Record{
		{Position: 7, Stream: sdk.Stderr, Time: at, Data: []byte("x")},
		{Position: 8, GapTo: 20},
		{Position: 20, Stream: sdk.Stdout, Time: at, Data: big},
	} {
		if err := c.WriteOutput(r); err != nil {
			t.Fatal(err)
		}
	}
	var got []byte
	next := sdk.Position(7)
	for next < 20+sdk.Position(len(big)) {
		kind, p, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		r, err := Record(kind, p, next)
		if err != nil {
			t.Fatal(err)
		}
		if next = r.End(); r.Stream == sdk.Stdout {
			got = append(got, r.Data...)
		}
		if !r.IsGap() && !r.Time.Equal(at) {
			t.Errorf("time %v", r.Time)
		}
	}
	if !bytes.Equal(got, big) {
		t.Error("a long record does not come back")
	}
}

func TestRecordsOutOfPlaceAreRefused(t *testing.T) {
	var b bytes.Buffer
	c := NewConn(&b, &b)
	payload := func(r sdk.Record) (Kind, []byte) {
		if err := c.WriteOutput(r); err != nil {
			t.Fatal(err)
		}
		kind, p, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		return kind, p
	}
	good := sdk.Record{Position: 5, Stream: sdk.Stdout, Data: []byte("x")}
	for name, r := range map[string]sdk.Record{
		"before": {Position: 4, Stream: sdk.Stdout, Data: []byte("x")}, "after": {Position: 6, Stream: sdk.Stdout, Data: []byte("x")},
		"stream": {Position: 5, Stream: 3, Data: []byte("x")}, "backward gap": {Position: 5, GapTo: 4}, "negative": {Position: -1, GapTo: 4},
		"overflow": {Position: 5, GapTo: -1 << 62},
	} {
		kind, p := payload(r)
		if _, err := Record(kind, p, 5); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	kind, p := payload(good)
	for n := range len(p) {
		if _, err := Record(kind, p[:n], 5); !errors.Is(err, ErrProtocol) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestFailuresKeepToWhatAContainerCanKnow(t *testing.T) {
	for _, err := range []error{
		sdk.NewNotFound(sdk.KindProcess, "p"), sdk.NewInvalid(sdk.ReasonExecutableNotFound, "no %q", "x"), sdk.NewUnsupported(sdk.FeatureTTY),
		&sdk.Error{Class: sdk.FailedPrecondition, Reason: sdk.ReasonOutputGap, Kind: sdk.KindProcess, ID: "p", Position: 9, Message: "m"},
	} {
		if diff := cmp.Diff(err, NewFailure(err).Err(), cmp.AllowUnexported()); diff != "" {
			t.Error(diff)
		}
	}
	for _, f := range []*Failure{
		{Class: sdk.NotFound, Kind: sdk.KindContainer}, {Class: sdk.NotFound, Kind: sdk.KindWorker}, {Class: sdk.NotFound}, {Class: "good"}, {},
		{Class: sdk.Invalid, Kind: sdk.KindVolume},
	} {
		if err := f.Err(); !errors.Is(err, sdk.Internal) || !errors.Is(err, ErrProtocol) {
			t.Errorf("%+v became %v", f, err)
		}
	}
	dirty := &Failure{Class: sdk.Invalid, Message: "a\x1b[2Jb\xff" + strings.Repeat("x", 1<<20), Reason: "no such reason", Position: -4}
	e := dirty.Err().(*sdk.Error)
	if len(e.Message) > 2*maxText || strings.Contains(e.Message, "\x1b") || !utf8.ValidString(e.Message) || e.Reason != "" || e.Position != 0 {
		t.Errorf("%.60q, reason %q, position %d", e.Message, e.Reason, e.Position)
	}
}

func TestExitsThatNobodyCanHaveHad(t *testing.T) {
	for _, e := range []Exit{
		{Code: 0, Reason: sdk.ExitExited}, {Code: 255, Reason: sdk.ExitExited}, {Code: 137, Signal: "KILL", Reason: sdk.ExitSignalled},
		{Code: 137, Signal: "KILL", Reason: sdk.ExitOOM}, {Code: 162, Signal: "RTMIN+0", Reason: sdk.ExitSignalled},
	} {
		if _, err := e.SDK(); err != nil {
			t.Error(err)
		}
	}
	for _, e := range []Exit{
		{Code: -1, Reason: sdk.ExitExited}, {Code: 256, Reason: sdk.ExitExited}, {Code: 0}, {Code: 0, Reason: "fine"},
		{Code: 0, Signal: "KILL", Reason: sdk.ExitSignalled}, {Code: 137, Reason: sdk.ExitSignalled}, {Code: 137, Signal: "KILL", Reason: sdk.ExitExited},
		{Code: 137, Signal: "kill -9 ", Reason: sdk.ExitSignalled}, {Code: 0, Reason: sdk.ExitExited, PeakMemoryBytes: -1},
	} {
		if _, err := e.SDK(); !errors.Is(err, ErrProtocol) {
			t.Errorf("%+v was taken", e)
		}
	}
}

func TestHello(t *testing.T) {
	var b bytes.Buffer
	want := Hello{State: StateReady, Program: "1", Features: []sdk.Feature{sdk.FeatureTTY}, Notes: []string{"n"}, PID: 4}
	if err := WriteHello(&b, want); err != nil {
		t.Fatal(err)
	}
	b.WriteString("rest")
	r := bufio.NewReader(&b)
	got, err := ReadHello(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if rest, _ := io.ReadAll(r); string(rest) != "rest" {
		t.Errorf("left is %q", rest)
	}
	if _, err := ReadHello(bufio.NewReader(strings.NewReader("slipway-shim 2 {}\n"))); err == nil || errors.Is(err, ErrProtocol) {
		t.Errorf("another version: %v", err)
	} else if v, ok := errors.AsType[*VersionError](err); !ok || v.Theirs != 2 {
		t.Errorf("another version: %v", err)
	}
	for _, line := range []string{"sh: slipway-shim: not found\n", "slipway-shim 1 {\n", "slipway-shim x {}\n", strings.Repeat("x", 1<<20)} {
		if _, err := ReadHello(bufio.NewReader(strings.NewReader(line))); !errors.Is(err, ErrProtocol) {
			t.Errorf("%.40q: %v", line, err)
		}
	}
	if _, err := ReadHello(bufio.NewReader(strings.NewReader(""))); err != io.EOF {
		t.Errorf("nothing at all: %v", err)
	}
	if _, err := ReadHello(bufio.NewReader(strings.NewReader("slipway-shim"))); err != io.ErrUnexpectedEOF {
		t.Errorf("half a line: %v", err)
	}
}

func TestDataEndsOnlyWhereItIsSaid(t *testing.T) {
	content := bytes.Repeat([]byte("data"), MaxFrame)
	send := func(end bool, why *Failure) *bytes.Buffer {
		var b bytes.Buffer
		c := NewConn(nil, &b)
		if _, err := (DataWriter{c}).Write(content); err != nil {
			t.Fatal(err)
		}
		if end {
			if err := c.WriteMessage(KindEnd, why); err != nil {
				t.Fatal(err)
			}
		}
		return &b
	}
	got, err := io.ReadAll(&DataReader{Conn: NewConn(send(true, nil), nil)})
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := io.ReadAll(&DataReader{Conn: NewConn(send(false, nil), nil)}); err != io.ErrUnexpectedEOF {
		t.Errorf("cut: %v", err)
	}
	if _, err := io.ReadAll(&DataReader{Conn: NewConn(send(true, &Failure{Class: sdk.Unavailable}), nil)}); !errors.Is(err, sdk.Unavailable) {
		t.Errorf("failed: %v", err)
	}
}

// FuzzRead has whatever comes from a container read in every way there is.
func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	c := NewConn(nil, &b)
	_ = WriteHello(&b, Hello{State: StateReady})
	_ = c.WriteMessage(KindOpened, Opened{State: sdk.ProcessRunning})
	_ = c.WriteOutput(sdk.Record{Stream: sdk.Stdout, Data: []byte("x")})
	_ = c.WriteMessage(KindExit, NewExit(sdk.Exit{Reason: sdk.ExitExited}))
	_ = c.WriteMessage(KindEnd, NewFailure(io.EOF))
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bufio.NewReader(bytes.NewReader(b))
		_, _ = ReadHello(r)
		c := NewConn(r, nil)
		var next sdk.Position
		for {
			kind, p, err := c.Read()
			if err != nil {
				return
			}
			if len(p) > MaxFrame {
				t.Fatalf("a frame of %d bytes", len(p))
			}
			var fail *Failure
			var reply Reply
			var exit Exit
			var opened Opened
			_ = Decode(p, &fail)
			_ = fail.Err()
			_ = Decode(p, &reply)
			for _, p := range reply.Processes {
				_, _ = p.SDK()
			}
			for _, f := range reply.Files {
				_, _ = f.SDK()
			}
			_ = Decode(p, &opened)
			_, _ = opened.SDK()
			if Decode(p, &exit) == nil {
				if e, err := exit.SDK(); err == nil && (e.Code < 0 || e.Code > 255) {
					t.Fatalf("exit %+v", e)
				}
			}
			if rec, err := Record(kind, p, next); err == nil {
				if rec.End() <= next {
					t.Fatalf("a record that ends at %d after %d", rec.End(), next)
				}
				next = rec.End()
			}
			_, _ = Number(p)
		}
	})
}
