package rpc

import (
	"context"
	"io"
	"strconv"
	"sync"

	"google.golang.org/grpc"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
	"github.com/slipway-run/slipway/sdk/internal/source"
)

// stdinChunk is how much stdin goes in one message.
const stdinChunk = 64 << 10

// FollowProcess implements [sdk.Worker]. All callbacks are made from the caller's goroutine; while one of them runs, nothing
// more is received, and the plugin's side comes to a halt once the connection's window is full. Acknowledgements and stdin
// go on meanwhile.
func (w *worker) FollowProcess(ctx context.Context, container sdk.ContainerID, process sdk.ProcessID, from sdk.Position, follow sdk.Follow) error {
	header := &pb.FollowProcessRequest{Frame: &pb.FollowProcessRequest_Header{Header: &pb.FollowHeader{Worker: w.name,
		Container: string(container), Process: string(process), Position: int64(from), Stdin: follow.Stdin != nil}}}
	callCtx, end := w.c.call(ctx)
	defer end()
	stream, err := w.c.data.FollowProcess(callCtx)
	if err != nil {
		return w.c.fail(ctx, err, header)
	}
	f := &follower{follow: follow, stream: stream}
	f.change.L = &f.mu
	if err := f.send(header); err != nil && err != io.EOF { // io.EOF: the answer is there already
		return w.c.fail(ctx, err, header)
	}

	var acking sync.WaitGroup
	if follow.Acks != nil {
		acking.Go(func() { f.forwardAcks(callCtx) })
	}
	err, own := f.receive(end)
	end()
	f.stopStdin()
	acking.Wait()
	switch {
	case err == nil:
		return nil
	case own:
		return err
	}
	if stdin := f.stdinError(); stdin != nil {
		return stdin
	}
	return w.c.fail(ctx, err, header)
}

// follower is the calling side of one FollowProcess.
type follower struct {
	follow sdk.Follow
	stream grpc.BidiStreamingClient[pb.FollowProcessRequest, pb.FollowProcessResponse]
	stdin  *source.Source // nil until Opened has returned, or for good

	sending sync.Mutex // gRPC takes one sender at a time

	mu     sync.Mutex
	change sync.Cond
	sent   int64 // of stdin, over all followers
	taken  int64
	over   bool
}

func (f *follower) send(m *pb.FollowProcessRequest) error {
	f.sending.Lock()
	defer f.sending.Unlock()
	return f.stream.Send(m)
}

// receive makes the callbacks until the plugin ends the call. own tells that the error is not the stream's.
func (f *follower) receive(end func()) (err error, own bool) {
	opened := false
	for {
		m, err := f.stream.Recv()
		if err == io.EOF {
			if !opened {
				return sdk.NewInternal(nil, `the plugin ended FollowProcess with OK before its first frame, which is "opened"`), true
			}
			return nil, false
		}
		if err != nil {
			return err, false
		}
		switch o := m.GetOpened(); {
		case !opened && o == nil:
			return sdk.NewInternal(nil, `the first frame of the plugin's FollowProcess is %s, want "opened"`, frameName(m)), true
		case opened && o != nil:
			return sdk.NewInternal(nil, `the plugin's FollowProcess has the frame "opened" twice, want it once, before all others`), true
		}
		opened = true
		if err := f.dispatch(m, end); err != nil {
			return err, true
		}
	}
}

// frameName is what the published files call a frame.
func frameName(m *pb.FollowProcessResponse) string {
	r := m.ProtoReflect()
	if d := r.WhichOneof(r.Descriptor().Oneofs().ByName("frame")); d != nil {
		return strconv.Quote(string(d.Name()))
	}
	return "none that this version knows"
}

func (f *follower) dispatch(m *pb.FollowProcessResponse, end func()) error {
	switch m := m.Frame.(type) {
	case *pb.FollowProcessResponse_Opened:
		return f.opened(openedFromPB(m.Opened), end)
	case *pb.FollowProcessResponse_Records:
		return f.output(m.Records.GetRecords())
	case *pb.FollowProcessResponse_Taken:
		f.setTaken(m.Taken)
		if f.follow.Taken != nil {
			f.follow.Taken(m.Taken)
		}
	case *pb.FollowProcessResponse_Exit:
		if f.follow.Exit != nil {
			return f.follow.Exit(exitFromPB(m.Exit))
		}
	}
	return nil
}

func (f *follower) opened(o sdk.Opened, end func()) error {
	if f.follow.Opened != nil {
		if err := f.follow.Opened(o); err != nil {
			return err
		}
	}
	if f.follow.Stdin == nil {
		return nil
	}
	f.mu.Lock()
	f.sent, f.taken = o.StdinTaken, o.StdinTaken
	f.mu.Unlock()
	f.stdin = source.New(f.follow.Stdin, func(src *source.Source) {
		f.feedStdin(src)
		if src.Failed() != nil {
			end()
		}
	})
	return nil
}

func (f *follower) output(in []*pb.Record) error {
	if len(in) == 0 {
		return nil
	}
	records := make([]sdk.Record, len(in))
	for i, r := range in {
		records[i] = recordFromPB(r)
	}
	if f.follow.Output != nil {
		if err := f.follow.Output(records); err != nil {
			return err
		}
	}
	if f.follow.Acks == nil {
		f.ack(records[len(records)-1].End())
	}
	return nil
}

// ack leaves it to the plugin's side to ignore what means nothing. If it cannot be sent, the call has ended.
func (f *follower) ack(p sdk.Position) {
	_ = f.send(&pb.FollowProcessRequest{Frame: &pb.FollowProcessRequest_Ack{Ack: int64(p)}})
}

// forwardAcks ends with the call.
func (f *follower) forwardAcks(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case p, ok := <-f.follow.Acks:
			if !ok {
				return
			}
			f.ack(p)
		}
	}
}

// feedStdin sends what the source gives, never more than MaxStdinAhead beyond what was taken.
func (f *follower) feedStdin(src *source.Source) {
	buf := make([]byte, stdinChunk)
	for {
		room := f.room()
		if room == 0 {
			return
		}
		n, err := src.Read(buf[:min(room, stdinChunk)])
		if n > 0 {
			f.mu.Lock()
			f.sent += int64(n)
			f.mu.Unlock()
			if f.send(&pb.FollowProcessRequest{Frame: &pb.FollowProcessRequest_Stdin{Stdin: buf[:n]}}) != nil {
				return
			}
		}
		if err == io.EOF {
			_ = f.send(&pb.FollowProcessRequest{Frame: &pb.FollowProcessRequest_StdinEnd{StdinEnd: &pb.StdinEnd{}}})
		}
		if err != nil {
			return
		}
	}
}

// room waits until there is some; 0 says that the call is over.
func (f *follower) room() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if f.over {
			return 0
		}
		if room := f.taken + sdk.MaxStdinAhead - f.sent; room > 0 {
			return room
		}
		f.change.Wait()
	}
}

func (f *follower) setTaken(total int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken = max(f.taken, min(total, f.sent))
	f.change.Broadcast()
}

func (f *follower) stopStdin() {
	f.mu.Lock()
	f.over = true
	f.change.Broadcast()
	f.mu.Unlock()
	if f.stdin != nil {
		f.stdin.Stop()
	}
}

func (f *follower) stdinError() error {
	if f.stdin == nil {
		return nil
	}
	return f.stdin.Failed()
}
