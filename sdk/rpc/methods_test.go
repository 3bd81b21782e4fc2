package rpc_test

import (
	"bytes"
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc/rpctest"
)

// method makes one call through the proxy and says what should have come in at the other end, and what came back beside
// what should have.
type method struct {
	call func(context.Context, *recorder, sdk.Runtime, sdk.Worker) (sent, back, want []any, err error)
}

func plain(call func(context.Context, sdk.Worker) error, sent ...any) method {
	return method{func(ctx context.Context, _ *recorder, _ sdk.Runtime, w sdk.Worker) ([]any, []any, []any, error) {
		return sent, nil, nil, call(ctx, w)
	}}
}

// answering is a method that gives a value, of which set tells the recorder.
func answering[T any](call func(context.Context, sdk.Worker) (T, error), set func(*answers, T), sent ...any) method {
	return method{func(ctx context.Context, r *recorder, _ sdk.Runtime, w sdk.Worker) ([]any, []any, []any, error) {
		want := filled[T]()
		set(&r.answer, want)
		got, err := call(ctx, w)
		return sent, []any{got}, []any{want}, err
	}}
}

func collecting[T any](call func(context.Context, sdk.Worker, func(T) error) error, set func(*answers, []T), sent ...any) method {
	return method{func(ctx context.Context, r *recorder, _ sdk.Runtime, w sdk.Worker) ([]any, []any, []any, error) {
		want := slices.Repeat(filled[[]T](), 500) // more than one message
		set(&r.answer, want)
		var got []T
		err := call(ctx, w, func(v T) error { got = append(got, v); return nil })
		return sent, []any{got}, []any{want}, err
	}}
}

func methods() map[string][]method {
	filter := filled[sdk.Filter]()
	in, out := filled[sdk.StreamIn](), filled[sdk.StreamOut]()
	in.Path, out.Path = strings.TrimPrefix(in.Path, "/"), strings.TrimPrefix(out.Path, "/") // those in a volume are relative
	ticket, size := filled[sdk.PeerTicket](), filled[sdk.TTY]()
	data := bytes.Repeat([]byte("0123456789"), 70_000)

	all := map[string][]method{
		"Close":            {plain(func(_ context.Context, w sdk.Worker) error { return w.Close() })},
		"SealVolume":       {plain(func(ctx context.Context, w sdk.Worker) error { return w.SealVolume(ctx, "v") }, sdk.VolumeID("v"))},
		"DestroyVolume":    {plain(func(ctx context.Context, w sdk.Worker) error { return w.DestroyVolume(ctx, "v") }, sdk.VolumeID("v"))},
		"DestroyContainer": {plain(func(ctx context.Context, w sdk.Worker) error { return w.DestroyContainer(ctx, "c") }, sdk.ContainerID("c"))},
		"SignalProcess": {plain(func(ctx context.Context, w sdk.Worker) error { return w.SignalProcess(ctx, "c", "p", sdk.TERM) },
			sdk.ContainerID("c"), sdk.ProcessID("p"), sdk.TERM)},
		"ResizeProcess": {plain(func(ctx context.Context, w sdk.Worker) error { return sdk.ResizeProcess(ctx, w, "c", "p", size) },
			sdk.ContainerID("c"), sdk.ProcessID("p"), size)},
		"PeerSend": {plain(func(ctx context.Context, w sdk.Worker) error {
			return w.(sdk.PeerStreamer).PeerSend(ctx, "v", out, ticket)
		}, sdk.VolumeID("v"), out, ticket)},
		"StreamIn": {plain(func(ctx context.Context, w sdk.Worker) error {
			return w.StreamIn(ctx, "v", in, bytes.NewReader(data))
		}, sdk.VolumeID("v"), in, string(data))},

		"Status": {answering(func(ctx context.Context, w sdk.Worker) (sdk.Status, error) { return w.Status(ctx) },
			func(a *answers, v sdk.Status) { a.status = v })},
		"PeerTicket": {answering(func(ctx context.Context, w sdk.Worker) (sdk.PeerTicket, error) {
			return w.(sdk.PeerStreamer).PeerTicket(ctx, "v", in)
		}, func(a *answers, v sdk.PeerTicket) { a.ticket = v }, sdk.VolumeID("v"), in)},
		"StatFile": {answering(func(ctx context.Context, w sdk.Worker) (sdk.FileInfo, error) {
			return w.(sdk.FileReader).StatFile(ctx, "v", "f\xff")
		}, func(a *answers, v sdk.FileInfo) { a.files = []sdk.FileInfo{v} }, sdk.VolumeID("v"), "f\xff")},
		"ListProcesses": {answering(func(ctx context.Context, w sdk.Worker) ([]sdk.ProcessInfo, error) { return w.ListProcesses(ctx, "c") },
			func(a *answers, v []sdk.ProcessInfo) { a.procs = v }, sdk.ContainerID("c"))},

		"ListVolumes": {collecting(func(ctx context.Context, w sdk.Worker, emit func(sdk.VolumeInfo) error) error {
			return w.ListVolumes(ctx, filter, emit)
		}, func(a *answers, v []sdk.VolumeInfo) { a.volumes = v }, filter)},
		"ListContainers": {collecting(func(ctx context.Context, w sdk.Worker, emit func(sdk.ContainerInfo) error) error {
			return w.ListContainers(ctx, filter, emit)
		}, func(a *answers, v []sdk.ContainerInfo) { a.boxes = v }, filter)},
		"ListFiles": {collecting(func(ctx context.Context, w sdk.Worker, emit func(sdk.FileInfo) error) error {
			return w.(sdk.FileReader).ListFiles(ctx, "v", "d\xff", emit)
		}, func(a *answers, v []sdk.FileInfo) { a.files = v }, sdk.VolumeID("v"), "d\xff")},

		"StreamOut": {{func(ctx context.Context, r *recorder, _ sdk.Runtime, w sdk.Worker) ([]any, []any, []any, error) {
			r.answer.data = data
			var got bytes.Buffer
			err := w.StreamOut(ctx, "v", out, &got)
			return []any{sdk.VolumeID("v"), out}, []any{got.String()}, []any{string(data)}, err
		}}},
		"ReadFile": {{func(ctx context.Context, r *recorder, _ sdk.Runtime, w sdk.Worker) ([]any, []any, []any, error) {
			r.answer.data = data
			var got bytes.Buffer
			err := w.(sdk.FileReader).ReadFile(ctx, "v", "f\xff", 3, -1, &got)
			return []any{sdk.VolumeID("v"), "f\xff", int64(3), int64(-1)}, []any{got.String()}, []any{string(data)}, err
		}}},
		"FollowProcess": {{follow}},
		"Workers": {{func(ctx context.Context, r *recorder, rt sdk.Runtime, _ sdk.Worker) ([]any, []any, []any, error) {
			many := sdk.WorkerEvent{Kind: sdk.WorkerSnapshot, Workers: slices.Repeat(filled[[]sdk.WorkerInfo](), 2000)}
			none := sdk.WorkerEvent{Kind: sdk.WorkerSnapshot}
			remove := sdk.WorkerEvent{Kind: sdk.WorkerRemove, Workers: filled[[]sdk.WorkerInfo]()[:1]}
			r.answer.events = []sdk.WorkerEvent{none, many, remove}
			var got []sdk.WorkerEvent
			err := rt.Workers(ctx, func(e sdk.WorkerEvent) error { got = append(got, e); return nil })
			return nil, []any{got}, []any{r.answer.events}, err
		}}},
		"Worker": {{func(ctx context.Context, r *recorder, rt sdk.Runtime, _ sdk.Worker) ([]any, []any, []any, error) {
			w, err := rt.Worker("b/node")
			if err != nil {
				return nil, nil, nil, err
			}
			return []any{sdk.VolumeID("v")}, nil, nil, w.SealVolume(ctx, "v")
		}}},
	}
	for _, spec := range volumeSpecs() {
		all["CreateVolume"] = append(all["CreateVolume"], plain(func(ctx context.Context, w sdk.Worker) error {
			return w.CreateVolume(ctx, spec)
		}, spec))
	}
	for _, spec := range processSpecs() {
		all["StartProcess"] = append(all["StartProcess"], plain(func(ctx context.Context, w sdk.Worker) error {
			return w.StartProcess(ctx, "c", spec)
		}, sdk.ContainerID("c"), spec))
	}
	for _, spec := range containerSpecs() {
		all["CreateContainer"] = append(all["CreateContainer"], collecting(func(ctx context.Context, w sdk.Worker, emit func(sdk.Progress) error) error {
			return w.CreateContainer(ctx, spec, func(p sdk.Progress) { _ = emit(p) })
		}, func(a *answers, v []sdk.Progress) { a.steps = v }, spec))
	}
	return all
}

func follow(ctx context.Context, r *recorder, _ sdk.Runtime, w sdk.Worker) ([]any, []any, []any, error) {
	one := filled[sdk.Record]()
	one.GapTo = 0
	one.Stream = sdk.Stderr
	gap := sdk.Record{Position: one.End(), GapTo: one.End() + 10, Time: one.Time}
	r.answer.opened, r.answer.exit, r.answer.records = filled[sdk.Opened](), filled[sdk.Exit](), []sdk.Record{one, gap}
	var opened []sdk.Opened
	var records []sdk.Record
	var exits []sdk.Exit
	err := w.FollowProcess(ctx, "c", "p", 7, sdk.Follow{
		Opened: func(o sdk.Opened) error { opened = append(opened, o); return nil },
		Output: func(got []sdk.Record) error {
			for _, g := range got {
				g.Data = bytes.Clone(g.Data)
				records = append(records, g)
			}
			return nil
		},
		Exit: func(e sdk.Exit) error { exits = append(exits, e); return nil },
	})
	return []any{sdk.ContainerID("c"), sdk.ProcessID("p"), sdk.Position(7)}, []any{opened, records, exits},
		[]any{[]sdk.Opened{r.answer.opened}, r.answer.records, []sdk.Exit{r.answer.exit}}, err
}

// everyMethod runs a test for every method of every interface of the contract, and fails for one that methods lacks.
func everyMethod(t *testing.T, test func(t *testing.T, name string, m method)) {
	all := methods()
	for _, iface := range []reflect.Type{reflect.TypeFor[sdk.Runtime](), reflect.TypeFor[sdk.Worker](), reflect.TypeFor[sdk.Resizer](),
		reflect.TypeFor[sdk.PeerStreamer](), reflect.TypeFor[sdk.FileReader]()} {
		for m := range iface.Methods() {
			cases := all[m.Name]
			if len(cases) == 0 {
				t.Errorf("%v.%s has no case: its values could get lost on the wire", iface, m.Name)
			}
			for _, c := range cases {
				t.Run(m.Name, func(t *testing.T) { test(t, m.Name, c) })
			}
		}
	}
}

// everyCall is everyMethod without Close, which makes no call.
func everyCall(t *testing.T, test func(t *testing.T, m method)) {
	everyMethod(t, func(t *testing.T, name string, m method) {
		if name != "Close" {
			test(t, m)
		}
	})
}

func join(t *testing.T, r sdk.Runtime) (sdk.Runtime, sdk.Worker) {
	t.Helper()
	rt := rpctest.Pair(t, r)
	w, err := rt.Worker("w")
	if err != nil {
		t.Fatal(err)
	}
	return rt, w
}

func TestEveryMethodCarriesItsValues(t *testing.T) {
	everyMethod(t, func(t *testing.T, _ string, m method) {
		r := &recorder{}
		rt, w := join(t, r)
		sent, back, want, err := m.call(t.Context(), r, rt, w)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sent, r.args()); diff != "" {
			t.Errorf("the plugin got something else (-sent +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, back); diff != "" {
			t.Errorf("the caller got something else (-answered +got):\n%s", diff)
		}
	})
}
