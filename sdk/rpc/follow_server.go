package rpc

import (
	"context"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

// recordOverhead is more than what a record takes on the wire beside its data.
const recordOverhead = 64

// maxRecordsMessage bounds the data and overhead of one message of records: less than 1 MiB with one more record.
const maxRecordsMessage = 512 << 10

type followServer = grpc.BidiStreamingServer[pb.FollowProcessRequest, pb.FollowProcessResponse]

func (s *server) FollowProcess(stream followServer) error {
	first, err := stream.Recv()
	if err == io.EOF {
		return sdk.NewInvalid(sdk.ReasonSpec, "FollowProcess: the call has no header")
	}
	if err != nil {
		return err
	}
	h := first.GetHeader()
	if h == nil {
		return sdk.NewInvalid(sdk.ReasonSpec, "FollowProcess: the call does not begin with its header")
	}
	w, release, err := s.worker(h.Worker)
	if err != nil {
		return err
	}
	defer release()

	ctx, end := s.endless(stream.Context())
	defer end()
	ctx, breach := context.WithCancelCause(ctx)
	defer breach(nil)

	f := &followedBy{acks: newAcks(sdk.Position(h.Position))}
	if h.Stdin {
		f.stdin = newStdinBuffer()
	}
	out := newSender(stream.Send)
	defer out.close()

	// The receiver ends when its stream does, which is after this method has returned.
	s.readers.Go(func() { f.receive(stream, breach) })
	var feeder sync.WaitGroup
	feeding, stopFeeding := context.WithCancel(ctx)
	feeder.Go(func() { f.acks.feed(feeding) })
	defer func() {
		stopFeeding()
		feeder.Wait()
		f.endStdin(errLateRead())
	}()

	err = w.FollowProcess(ctx, sdk.ContainerID(h.Container), sdk.ProcessID(h.Process), sdk.Position(h.Position), f.follow(out))
	if cause := context.Cause(ctx); sdk.ClassOf(cause) != "" {
		return cause // the follower broke the protocol
	}
	return err
}

// followedBy is the serving side of one follower.
type followedBy struct {
	acks  *acks
	stdin *stdinBuffer // nil: it has none
}

func (f *followedBy) endStdin(err error) {
	if f.stdin != nil {
		f.stdin.close(err)
	}
}

// receive takes what the follower sends, at all times: it never waits for the plugin.
func (f *followedBy) receive(stream followServer, breach context.CancelCauseFunc) {
	for {
		m, err := stream.Recv()
		if err != nil {
			// A half-closed call, too, says nothing of stdin's end.
			f.endStdin(fmt.Errorf("the follower is gone: %w", io.ErrUnexpectedEOF))
			return
		}
		switch m := m.Frame.(type) {
		case *pb.FollowProcessRequest_Ack:
			f.acks.take(sdk.Position(m.Ack))
		case *pb.FollowProcessRequest_Stdin:
			if f.stdin == nil {
				breach(sdk.NewInvalid(sdk.ReasonSpec, "FollowProcess: stdin came from a follower whose header says that it has none"))
				return
			}
			if err := f.stdin.add(m.Stdin); err != nil {
				breach(err)
				return
			}
		case *pb.FollowProcessRequest_StdinEnd:
			f.endStdin(io.EOF)
		}
	}
}

// follow makes the plugin's view of the follower.
func (f *followedBy) follow(out *sender[pb.FollowProcessResponse]) sdk.Follow {
	follow := sdk.Follow{
		Opened: func(o sdk.Opened) error {
			return out.send(&pb.FollowProcessResponse{Frame: &pb.FollowProcessResponse_Opened{Opened: openedToPB(o)}})
		},
		Output: func(records []sdk.Record) error { return f.output(out, records) },
		Taken: func(total int64) {
			// If it cannot be sent, the call's context has ended and says so.
			_ = out.send(&pb.FollowProcessResponse{Frame: &pb.FollowProcessResponse_Taken{Taken: total}})
		},
		Exit: func(e sdk.Exit) error {
			return out.send(&pb.FollowProcessResponse{Frame: &pb.FollowProcessResponse_Exit{Exit: exitToPB(e)}})
		},
		Acks: f.acks.to,
	}
	if f.stdin != nil {
		follow.Stdin = f.stdin
	}
	return follow
}

// output sends records in messages of bounded size, and cuts those that are longer than the contract allows.
func (f *followedBy) output(out *sender[pb.FollowProcessResponse], records []sdk.Record) error {
	var part []*pb.Record
	size := 0
	flush := func() error {
		if len(part) == 0 {
			return nil
		}
		last := part[len(part)-1]
		f.acks.deliver(recordFromPB(last).End())
		m := &pb.FollowProcessResponse{Frame: &pb.FollowProcessResponse_Records{Records: &pb.Records{Records: part}}}
		part, size = nil, 0
		return out.send(m)
	}
	for _, r := range records {
		for {
			rest := r
			if !r.IsGap() && len(r.Data) > sdk.MaxRecordBytes {
				rest.Position += sdk.MaxRecordBytes
				rest.Data = r.Data[sdk.MaxRecordBytes:]
				r.Data = r.Data[:sdk.MaxRecordBytes]
			} else {
				rest.Data = nil
			}
			n := len(r.Data) + recordOverhead
			if size > 0 && size+n > maxRecordsMessage {
				if err := flush(); err != nil {
					return err
				}
			}
			part = append(part, recordToPB(r))
			size += n
			if len(rest.Data) == 0 {
				break
			}
			r = rest
		}
	}
	return flush()
}

// acks brings positions from the wire to the plugin. The newest one counts; one that waits is replaced by it.
type acks struct {
	to   chan sdk.Position
	wake chan struct{}

	mu        sync.Mutex
	last      sdk.Position // the newest one taken
	delivered sdk.Position // the end of what was sent
}

func newAcks(from sdk.Position) *acks {
	return &acks{to: make(chan sdk.Position), wake: make(chan struct{}, 1), last: from, delivered: from}
}

func (a *acks) deliver(end sdk.Position) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.delivered = max(a.delivered, end)
}

// take ignores what is smaller than the last, or beyond what was delivered.
func (a *acks) take(p sdk.Position) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p <= a.last || p > a.delivered {
		return
	}
	a.last = p
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// feed hands positions to the plugin until ctx ends.
func (a *acks) feed(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		}
		a.mu.Lock()
		p := a.last
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case a.to <- p:
		}
	}
}

// stdinBuffer holds the stdin that the follower has sent and the plugin has not read. The protocol bounds it.
type stdinBuffer struct {
	mu     sync.Mutex
	change sync.Cond
	data   []byte
	err    error // what comes after data
}

func newStdinBuffer() *stdinBuffer {
	b := &stdinBuffer{}
	b.change.L = &b.mu
	return b
}

func (b *stdinBuffer) add(p []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return nil // after the end: nobody will read it
	}
	if len(b.data)+len(p) > sdk.MaxStdinAhead {
		return sdk.NewInvalid(sdk.ReasonTooLarge, "FollowProcess: more than %d bytes of stdin came before they were taken", sdk.MaxStdinAhead)
	}
	b.data = append(b.data, p...)
	b.change.Broadcast()
	return nil
}

// close says what comes after the bytes that are there. The first one counts.
func (b *stdinBuffer) close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
	b.change.Broadcast()
}

// Read blocks until there is something, or the end.
func (b *stdinBuffer) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.data) == 0 && b.err == nil {
		b.change.Wait()
	}
	if len(b.data) == 0 {
		return 0, b.err
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}
