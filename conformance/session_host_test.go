package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/slipway-run/slipway/conformance/internal/wire"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// player plays the plugin's side of a session.
type player struct {
	mu     sync.Mutex
	calls  []exchange // those that are still to come
	faults []string
}

// next takes the first call of that method, of those that are still to come.
func (p *player) next(method string) (exchange, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.calls, func(e exchange) bool { return e.method == method })
	if i < 0 {
		return exchange{}, false
	}
	e := p.calls[i]
	p.calls = slices.Delete(p.calls, i, i+1)
	return e, true
}

func (p *player) fault(format string, args ...any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
	return status.Error(codes.Internal, "not as in the session")
}

func (p *player) serve(_ any, s grpc.ServerStream) error {
	full, _ := grpc.MethodFromServerStream(s)
	method := strings.TrimPrefix(full, "/"+wire.Package)
	call, ok := p.next(method)
	if !ok {
		return p.fault("%s is called once more than in the session", method)
	}
	for _, l := range call.lines {
		switch l.kind {
		case '>':
			var frame rawFrame
			if err := s.RecvMsg(&frame); err != nil {
				return p.fault("%s: awaiting %v: %v", method, l.m, err)
			}
			m, _, err := wire.Parse(method, false, frame)
			if why := unlike(l.m, m); err != nil || why != "" {
				return p.fault("%s: %v; %s: got %v, want %v", method, err, why, m, l.m)
			}
		case '<':
			b, err := wire.Build(method, true, known(l.m))
			if err != nil {
				return p.fault("%s: %v", method, err)
			}
			frame := rawFrame(b)
			if err := s.SendMsg(&frame); err != nil {
				return err
			}
		case '=':
			return nil
		case '!':
			return p.refusal(l.m)
		}
	}
	if method == "Plugin/Workers" {
		<-s.Context().Done()
	}
	return nil
}

// known leaves out what differs from one plugin to the next.
func known(m map[string]any) wire.Message {
	out := make(wire.Message)
	for name, value := range m {
		switch v := value.(type) {
		case string:
			if v == "*" {
				continue
			}
		case map[string]any:
			value = map[string]any(known(v))
		case []any:
			all := make([]any, 0, len(v))
			for _, one := range v {
				if m, ok := one.(map[string]any); ok {
					one = map[string]any(known(m))
				}
				all = append(all, one)
			}
			value = all
		}
		out[name] = value
	}
	return out
}

func (p *player) refusal(m wire.Message) error {
	e := known(m.At("error"))
	b, err := wire.BuildError(e)
	if err != nil {
		return p.fault("an error: %v", err)
	}
	code := codes.Unknown
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if c.String() == m.Text("code") {
			code = c
		}
	}
	s := status.New(code, "as in the session").Proto()
	s.Details = []*anypb.Any{{TypeUrl: "type.googleapis.com/slipway.runtime.v1alpha1.Error", Value: b}}
	return status.ErrorProto(s)
}

// rawFrame is a message as its bytes.
type rawFrame []byte

// rawCodec passes frames on, and all else as protobuf.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) {
	if f, ok := v.(*rawFrame); ok {
		return *f, nil
	}
	return proto.Marshal(v.(proto.Message))
}

func (rawCodec) Unmarshal(b []byte, v any) error {
	if f, ok := v.(*rawFrame); ok {
		*f = bytes.Clone(b)
		return nil
	}
	return proto.Unmarshal(b, v.(proto.Message))
}

// TestSessionsWithHostOfToday has the client of today make the calls of each session, and gives it the answers that stand there.
func TestSessionsWithHostOfToday(t *testing.T) {
	for name, calls := range sessions(t) {
		t.Run(name, func(t *testing.T) {
			p := &player{calls: slices.Clone(calls)}
			server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(p.serve))
			lis, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- server.Serve(lis) }()
			c, err := rpc.Dial(t.Context(), lis.Addr(), rpc.DialOptions{})
			if err != nil {
				t.Fatal(err)
			}
			err = visit(testkit.Context(t), t, c, calls)
			if err := errors.Join(err, c.Close()); err != nil {
				t.Error(err)
			}
			server.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
			for _, f := range p.faults {
				t.Error(f)
			}
			for _, e := range p.calls {
				t.Errorf("%s was not called", e.method)
			}
		})
	}
}

// visit makes the calls of the session, and looks at what the host gets.
func visit(ctx context.Context, t *testing.T, c *rpc.Client, calls []exchange) error {
	info, err := c.Info(ctx, sdk.HostInfo{Version: "0.1.0", Installation: "demo"})
	if err != nil || info.Name != "memory" {
		return fmt.Errorf("it is %q: %w", info.Name, err)
	}
	values := json.RawMessage(`{"shell":true}`)
	if err := c.Configure(ctx, sdk.Block{Name: "memory", Values: values}, []sdk.Block{{Name: "here", Values: values}}); err != nil {
		return err
	}
	names, err := workerNames(ctx, c.Runtime())
	if err != nil || !slices.Equal(names, []string{"here"}) {
		return fmt.Errorf("its workers are %q: %w", names, err)
	}
	w, err := c.Runtime().Worker("here")
	if err != nil {
		return err
	}
	st, err := w.Status(ctx)
	if err != nil || st.Health != sdk.Healthy {
		return fmt.Errorf("its health is %q: %w", st.Health, err)
	}
	labels := map[string]string{sdk.LabelInstallation: "demo"}
	start := sdk.ProcessSpec{ID: "p-1", Token: "tp", Path: "cat", Args: []string{"/in/greeting"}}
	archive, err := base64.StdEncoding.DecodeString(archiveOf(calls))
	if err != nil {
		return err
	}
	for what, err := range steps(
		"creating a volume", func() error {
			return w.CreateVolume(ctx, sdk.VolumeSpec{ID: "v-1", Token: "tv", Labels: labels})
		},
		"streaming into it", func() error {
			return w.StreamIn(ctx, "v-1", sdk.StreamIn{Encoding: "gzip"}, bytes.NewReader(archive))
		},
		"sealing it", func() error { return w.SealVolume(ctx, "v-1") },
		"creating a container", func() error {
			spec := sdk.ContainerSpec{ID: "c-1", Token: "tc", Labels: labels, Mounts: []sdk.Mount{{Volume: "v-1", Path: "/in", ReadOnly: true}}}
			return w.CreateContainer(ctx, spec, nil)
		},
		"starting", func() error { return w.StartProcess(ctx, "c-1", start) },
		"starting again", func() error { return w.StartProcess(ctx, "c-1", start) },
		"following", func() error {
			var j Journal
			err := w.FollowProcess(ctx, "c-1", "p-1", 0, j.Into(sdk.Follow{Acks: acknowledge(6)}))
			if string(j.Stdout) != "hello\n" || j.Exit == nil || j.Exit.Code != 0 || j.Exit.Reason != sdk.ExitExited {
				t.Errorf("the process wrote %q, and its exit is %s", j.Stdout, exitText(j.Exit))
			}
			return err
		},
		"listing processes", func() error {
			all, err := w.ListProcesses(ctx, "c-1")
			if len(all) != 1 || all[0].State != sdk.ProcessExited || all[0].Token != "tp" || all[0].Exit == nil {
				t.Errorf("listed are %+v", all)
			}
			return err
		},
		"following from a gap", func() error {
			err := w.FollowProcess(ctx, "c-1", "p-1", 0, sdk.Follow{})
			if e := asError(err); e.Class != sdk.FailedPrecondition || e.Reason != sdk.ReasonOutputGap || e.Position != 6 {
				t.Errorf("following from what was dropped: %s", describe(err))
			}
			return nil
		},
		"sealing what is not there", func() error {
			if err := w.SealVolume(ctx, "v-2"); !sdk.IsNotFound(err, sdk.KindVolume) {
				t.Errorf("sealing a volume that is not there: %s", describe(err))
			}
			return nil
		},
		"destroying the container", func() error { return w.DestroyContainer(ctx, "c-1") },
		"destroying the volume", func() error { return w.DestroyVolume(ctx, "v-1") },
		"listing volumes", func() error {
			return w.ListVolumes(ctx, sdk.Filter{Labels: labels}, func(v sdk.VolumeInfo) error { return fmt.Errorf("%q is listed", v.ID) })
		},
	) {
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

// archiveOf is the data that the session streams in.
func archiveOf(calls []exchange) string {
	for _, e := range calls {
		for _, l := range e.lines {
			if e.method == "Data/StreamIn" && l.m.Has("data") {
				return l.m.Text("data")
			}
		}
	}
	return ""
}

// steps gives pairs of words and what comes of a function, one after another.
func steps(pairs ...any) func(yield func(string, error) bool) {
	return func(yield func(string, error) bool) {
		for i := 0; i < len(pairs); i += 2 {
			if !yield(pairs[i].(string), pairs[i+1].(func() error)()) {
				return
			}
		}
	}
}
