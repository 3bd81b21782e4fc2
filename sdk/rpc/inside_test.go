package rpc

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

func TestWhichAcknowledgementsCount(t *testing.T) {
	a := newAcks(5)
	a.deliver(20)
	for _, c := range []struct {
		at    sdk.Position
		count bool
	}{{5, false}, {10, true}, {10, false}, {7, false}, {21, false}, {-1, false}, {20, true}} {
		a.take(c.at)
		if got := len(a.wake) == 1; got != c.count {
			t.Errorf("%d: counted is %v", c.at, got)
		}
		if c.count {
			<-a.wake
			if a.last != c.at {
				t.Errorf("the last one is %d, want %d", a.last, c.at)
			}
		}
	}
}

func TestMessagesOfRecordsAreSmall(t *testing.T) {
	f := &followedBy{acks: newAcks(0)}
	var records []sdk.Record
	at := sdk.Position(0)
	for i := range 40_000 {
		r := sdk.Record{Position: at, Stream: sdk.Stdout, Time: time.Now(), Data: make([]byte, 1+i%50*i%70)}
		records, at = append(records, r), r.End()
	}
	records = append(records, sdk.Record{Position: at, Stream: sdk.Stderr, Data: make([]byte, 3<<20)})
	got := sdk.Position(0)
	out := newSender(func(m *pb.FollowProcessResponse) error {
		if n := m.GetRecords(); len(n.Records) == 0 {
			t.Error("a message without records")
		}
		if n := proto.Size(m); n >= 1<<20 {
			t.Errorf("a message of %d bytes", n)
		}
		for _, r := range m.GetRecords().Records {
			if sdk.Position(r.Position) != got || len(r.Data) > sdk.MaxRecordBytes {
				t.Fatalf("record of %d bytes at %d, want at %d", len(r.Data), r.Position, got)
			}
			got += sdk.Position(len(r.Data))
		}
		return nil
	})
	if err := f.output(out, records); err != nil {
		t.Fatal(err)
	}
	if want := records[len(records)-1].End(); got != want || f.acks.delivered != want {
		t.Errorf("sent up to %d, delivered up to %d, want %d", got, f.acks.delivered, want)
	}
}

// TestStatusWithoutDetail is what gRPC itself, or a plugin in another language, may answer.
func TestStatusWithoutDetail(t *testing.T) {
	ctx := t.Context()
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	withDeadline, cancel2 := context.WithTimeout(ctx, time.Hour)
	defer cancel2()
	for _, c := range []struct {
		ctx  context.Context
		code codes.Code
		gone bool
		want error
	}{
		{ctx, codes.NotFound, false, sdk.NotFound},
		{ctx, codes.Unimplemented, false, sdk.Unsupported},
		{ctx, codes.ResourceExhausted, false, sdk.Internal}, // a message that is too large
		{ctx, codes.Unknown, false, sdk.Internal},
		{ctx, codes.Unavailable, false, sdk.ReasonPluginGone},
		{ctx, codes.Canceled, false, sdk.ReasonPluginGone},
		{ctx, codes.DeadlineExceeded, false, sdk.ReasonPluginGone},
		{withDeadline, codes.DeadlineExceeded, false, context.DeadlineExceeded},
		{ctx, codes.Internal, true, sdk.ReasonPluginGone}, // such as a stream that was reset
		{ctx, codes.Unknown, true, sdk.ReasonPluginGone},
		{cancelled, codes.Unavailable, true, context.Canceled},
		{cancelled, codes.NotFound, false, context.Canceled},
	} {
		if err := fromStatus(c.ctx, status.Error(c.code, "bare"), c.gone); !errors.Is(err, c.want) {
			t.Errorf("%v, gone %v: got %v, want %v", c.code, c.gone, err, c.want)
		}
	}
	// People read a sentence; what gRPC said is there for programs.
	raw := status.Error(codes.Unavailable, "error reading from server: EOF")
	if err := fromStatus(ctx, raw, false); err.Error() != "the plugin went away under the call" || !errors.Is(err, raw) {
		t.Errorf("got %q, with the cause %v", err, errors.Unwrap(err))
	}
	told := toStatus(ctx, sdk.NewNotFound(sdk.KindFile, "f"))
	if err := fromStatus(cancelled, told, true); !sdk.IsNotFound(err, sdk.KindFile) {
		t.Errorf("an answer that came before the end was lost: %v", err)
	}
	for _, class := range []sdk.Class{sdk.Unavailable, sdk.Internal} {
		if err := fromStatus(cancelled, toStatus(ctx, &sdk.Error{Class: class}), false); err != context.Canceled {
			t.Errorf("a cancelled call that the plugin calls %v got %v", class, err)
		}
	}
}
