package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
	"github.com/slipway-run/slipway/sdk/rpc/internal/testruntime"
)

// scripted is a worker whose FollowProcess is the test's.
type scripted struct {
	*recorder
	follow func(context.Context, sdk.Follow) error
}

func (s *scripted) Worker(string) (sdk.Worker, error) { return s, nil }

func (s *scripted) FollowProcess(ctx context.Context, _ sdk.ContainerID, _ sdk.ProcessID, _ sdk.Position, f sdk.Follow) error {
	return s.follow(ctx, f)
}

func script(t *testing.T, follow func(context.Context, sdk.Follow) error) sdk.Worker {
	t.Helper()
	_, w := join(t, &scripted{&recorder{}, follow})
	return w
}

func output(at sdk.Position, data []byte) []sdk.Record {
	return []sdk.Record{{Position: at, Stream: sdk.Stdout, Data: data}}
}

// counted counts what is read of an endless source.
type counted struct{ n atomic.Int64 }

func (c *counted) Read(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

func TestStdinStaysWithinItsBound(t *testing.T) {
	const taken, more = 100, 10
	w := script(t, func(ctx context.Context, f sdk.Follow) error {
		if err := f.Opened(sdk.Opened{State: sdk.ProcessRunning, StdinTaken: taken, StdinGeneration: 2}); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, f.Stdin, sdk.MaxStdinAhead); err != nil {
			return err
		}
		f.Taken(taken + more)
		if _, err := io.CopyN(io.Discard, f.Stdin, more); err != nil {
			return err
		}
		return f.Exit(sdk.Exit{})
	})
	src := &counted{}
	opened := false
	var told int64
	err := w.FollowProcess(t.Context(), "c", "p", 0, sdk.Follow{
		Opened: func(o sdk.Opened) error {
			opened = true
			if n := src.n.Load(); n != 0 {
				t.Errorf("%d bytes of stdin were read before Opened returned", n)
			}
			return nil
		},
		Taken: func(total int64) { told = total },
		Stdin: src,
	})
	if err != nil || !opened || told != taken+more {
		t.Errorf("err %v, opened %v, told %d", err, opened, told)
	}
	if n := src.n.Load(); n != sdk.MaxStdinAhead+more {
		t.Errorf("%d bytes of stdin were read, want %d", n, sdk.MaxStdinAhead+more)
	}
}

func TestStdinErrorEndsTheCallAndClosesNothing(t *testing.T) {
	seen := make(chan error, 1)
	w := script(t, func(ctx context.Context, f sdk.Follow) error {
		if err := f.Opened(sdk.Opened{}); err != nil {
			return err
		}
		_, err := io.ReadAll(f.Stdin)
		seen <- err
		<-ctx.Done()
		return ctx.Err()
	})
	err := w.FollowProcess(t.Context(), "c", "p", 0, sdk.Follow{Stdin: failingReader{strings.NewReader("half")}})
	if err != errOwn {
		t.Errorf("caller got %v", err)
	}
	if err := receive(t, "the plugin's read", seen); err == nil {
		t.Error("the plugin took the failure for the end of stdin")
	}
}

func TestHalfClosedCallIsNotTheEndOfStdin(t *testing.T) {
	seen := make(chan error, 1)
	conn := raw(t, &scripted{&recorder{}, func(_ context.Context, f sdk.Follow) error {
		_, err := io.ReadAll(f.Stdin)
		seen <- err
		return f.Exit(sdk.Exit{})
	}})
	stream, err := pb.NewDataClient(conn).FollowProcess(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(followHeader(true)); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, "the plugin's read", seen); err == nil {
		t.Error("the plugin took a half-closed call for the end of stdin")
	}
}

func followHeader(stdin bool) *pb.FollowProcessRequest {
	return &pb.FollowProcessRequest{Frame: &pb.FollowProcessRequest_Header{Header: &pb.FollowHeader{Worker: "w", Container: "c", Process: "p", Stdin: stdin}}}
}

func TestFollowerThatSendsTooMuchStdin(t *testing.T) {
	for name, c := range map[string]struct {
		stdin bool
		bytes int
	}{"beyond the bound": {true, sdk.MaxStdinAhead + 1}, "though it has none": {false, 1}} {
		t.Run(name, func(t *testing.T) {
			conn := raw(t, &scripted{&recorder{}, func(ctx context.Context, f sdk.Follow) error {
				<-ctx.Done()
				return ctx.Err()
			}})
			stream, err := pb.NewDataClient(conn).FollowProcess(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range []*pb.FollowProcessRequest{followHeader(c.stdin), {Frame: &pb.FollowProcessRequest_Stdin{Stdin: make([]byte, c.bytes)}}} {
				if err := stream.Send(m); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAcknowledgements(t *testing.T) {
	acked := make(chan sdk.Position, 10)
	w := script(t, func(ctx context.Context, f sdk.Follow) error {
		if err := f.Opened(sdk.Opened{}); err != nil {
			return err
		}
		for at := sdk.Position(0); at < 30; at += 10 {
			if err := f.Output(output(at, make([]byte, 10))); err != nil {
				return err
			}
		}
		if err := f.Exit(sdk.Exit{}); err != nil {
			return err
		}
		for {
			select {
			case p := <-f.Acks:
				acked <- p
				if p == 30 {
					return nil
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	t.Run("those of the caller, one by one", func(t *testing.T) {
		acks := make(chan sdk.Position)
		exited, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- w.FollowProcess(t.Context(), "c", "p", 0, sdk.Follow{Acks: acks, Exit: func(sdk.Exit) error { close(exited); return nil }})
		}()
		receive(t, "the exit", exited)
		for _, p := range []sdk.Position{10, 5, 31, 20} { // 5 is smaller, 31 was never delivered
			acks <- p
		}
		for last := sdk.Position(0); last != 20; {
			p := receive(t, "an acknowledgement", acked)
			if p <= last || p != 10 && p != 20 {
				t.Fatalf("the plugin got %d after %d", p, last)
			}
			last = p
		}
		select {
		case err := <-ended:
			t.Fatalf("the call ended before the last acknowledgement: %v", err)
		default:
		}
		acks <- 30
		if err := receive(t, "the end", ended); err != nil {
			t.Error(err)
		}
		<-acked
	})
	t.Run("none: what Output returned nil for", func(t *testing.T) {
		if err := w.FollowProcess(t.Context(), "c", "p", 0, sdk.Follow{}); err != nil {
			t.Error(err)
		}
	})
}

func TestSlowOutputHoldsUpTheJournalOnly(t *testing.T) {
	records := testkit.Times(64, 256) // of 256 KiB: far beyond any window
	acked, sent := make(chan sdk.Position, 1), make(chan error, 1)
	w := script(t, func(ctx context.Context, f sdk.Follow) error {
		if err := f.Opened(sdk.Opened{}); err != nil {
			return err
		}
		go func() {
			for i := range records {
				if err := f.Output(output(sdk.Position(i*sdk.MaxRecordBytes), make([]byte, sdk.MaxRecordBytes))); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		stdin := make([]byte, 5)
		if _, err := io.ReadFull(f.Stdin, stdin); err != nil {
			return err
		}
		acked <- <-f.Acks
		if err := <-sent; err != nil {
			return err
		}
		return f.Exit(sdk.Exit{})
	})
	acks := make(chan sdk.Position)
	blocked, open := make(chan struct{}, records), make(chan struct{})
	var end sdk.Position
	ended := make(chan error, 1)
	go func() {
		ended <- w.FollowProcess(t.Context(), "c", "p", 0, sdk.Follow{
			Acks:  acks,
			Stdin: strings.NewReader("stdin"),
			Output: func(got []sdk.Record) error {
				blocked <- struct{}{}
				<-open
				for _, r := range got {
					if r.Position != end {
						t.Errorf("record at %d, want %d", r.Position, end)
					}
					end = r.End()
				}
				return nil
			},
		})
	}()
	receive(t, "the first record", blocked)
	acks <- 1
	if p := receive(t, "the acknowledgement", acked); p != 1 {
		t.Errorf("got %d", p)
	}
	if _, err := w.Status(t.Context()); err != nil {
		t.Error(err)
	}
	if len(sent) != 0 {
		t.Error("all was sent to a follower that takes nothing")
	}
	close(open)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if end != sdk.Position(records*sdk.MaxRecordBytes) {
		t.Errorf("delivered up to %d", end)
	}
}

func TestRecordsAreCutToSize(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	w := script(t, func(_ context.Context, f sdk.Follow) error {
		if err := f.Opened(sdk.Opened{}); err != nil {
			return err
		}
		many := make([]sdk.Record, 0, 50_001)
		at := sdk.Position(7)
		many = append(many, sdk.Record{Position: at, Stream: sdk.Stdout, Data: data})
		at = many[0].End()
		for range 50_000 {
			many = append(many, sdk.Record{Position: at, Stream: sdk.Stderr, Data: []byte("x")})
			at++
		}
		if err := f.Output(many); err != nil {
			return err
		}
		return f.Exit(sdk.Exit{})
	})
	var got []byte
	at := sdk.Position(7)
	err := w.FollowProcess(t.Context(), "c", "p", 7, sdk.Follow{Output: func(records []sdk.Record) error {
		for _, r := range records {
			if r.Position != at || len(r.Data) > sdk.MaxRecordBytes || len(r.Data) == 0 {
				t.Fatalf("record of %d bytes at %d, want at %d", len(r.Data), r.Position, at)
			}
			at = r.End()
			if r.Stream == sdk.Stdout {
				got = append(got, r.Data...)
			}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data) || at != sdk.Position(7+len(data)+50_000) {
		t.Errorf("%d bytes came, up to %d", len(got), at)
	}
}

func TestPluginThatDoesNotOpen(t *testing.T) {
	for name, follow := range map[string]func(context.Context, sdk.Follow) error{
		"ends":          func(context.Context, sdk.Follow) error { return nil },
		"exits at once": func(_ context.Context, f sdk.Follow) error { return f.Exit(sdk.Exit{}) },
		"opens twice": func(_ context.Context, f sdk.Follow) error {
			return errors.Join(f.Opened(sdk.Opened{}), f.Opened(sdk.Opened{}))
		},
	} {
		if err := script(t, follow).FollowProcess(t.Context(), "c", "p", 0, sdk.Follow{}); !errors.Is(err, sdk.Internal) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestPluginThatCallsBackTooLate(t *testing.T) {
	late := make(chan error, 1)
	called := make(chan struct{})
	w := script(t, func(_ context.Context, f sdk.Follow) error {
		go func() {
			<-called
			late <- f.Output(output(0, []byte("late")))
		}()
		return errors.Join(f.Opened(sdk.Opened{}), f.Exit(sdk.Exit{}))
	})
	if err := w.FollowProcess(t.Context(), "c", "p", 0, sdk.Follow{}); err != nil {
		t.Fatal(err)
	}
	close(called)
	if err := receive(t, "the late callback", late); err == nil {
		t.Error("a callback after the end of the call succeeded")
	}
}

func TestFollowersOfOneProcess(t *testing.T) {
	_, w := join(t, testruntime.New("w"))
	ctx := t.Context()
	if err := w.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: "t"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.StartProcess(ctx, "c", sdk.ProcessSpec{ID: "p", Token: "t", Path: "hold"}); err != nil {
		t.Fatal(err)
	}
	follow := func(ctx context.Context) <-chan error {
		opened, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- w.FollowProcess(ctx, "c", "p", 0, sdk.Follow{Opened: func(sdk.Opened) error { close(opened); return nil }})
		}()
		receive(t, "a follower opening", opened)
		return ended
	}
	first := follow(ctx)
	second := follow(ctx)
	if err := receive(t, "the older follower", first); !errors.Is(err, sdk.FailedPrecondition) || !errors.Is(err, sdk.ReasonSuperseded) {
		t.Errorf("the older follower got %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	third := follow(cancelled)
	<-second
	cancel()
	if err := receive(t, "the cancelled follower", third); err != context.Canceled {
		t.Errorf("the cancelled follower got %v", err)
	}
	processes, err := w.ListProcesses(ctx, "c")
	if err != nil || len(processes) != 1 || processes[0].State != sdk.ProcessRunning {
		t.Errorf("after the follower was cancelled: %+v, %v", processes, err)
	}
	fourth := follow(ctx)
	if err := w.DestroyContainer(ctx, "c"); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, "the follower of a destroyed container", fourth); !sdk.IsNotFound(err, sdk.KindContainer) {
		t.Errorf("got %v", err)
	}
}
