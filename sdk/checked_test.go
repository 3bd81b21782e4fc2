package sdk_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// able is a worker that can do everything, and notes what comes to it.
type able struct {
	sdk.Worker // nil: what is missing here panics
	called     []string
}

func (w *able) note(method string) error { w.called = append(w.called, method); return nil }

func (w *able) Status(context.Context) (sdk.Status, error) {
	return sdk.Status{Features: []sdk.Feature{sdk.FeatureTTY, sdk.FeatureFileRead}}, w.note("Status")
}
func (w *able) CreateVolume(context.Context, sdk.VolumeSpec) error { return w.note("CreateVolume") }
func (w *able) SealVolume(context.Context, sdk.VolumeID) error     { return w.note("SealVolume") }
func (w *able) DestroyVolume(context.Context, sdk.VolumeID) error  { return w.note("DestroyVolume") }
func (w *able) DestroyContainer(context.Context, sdk.ContainerID) error {
	return w.note("DestroyContainer")
}
func (w *able) ListVolumes(context.Context, sdk.Filter, func(sdk.VolumeInfo) error) error {
	return w.note("ListVolumes")
}
func (w *able) ListContainers(context.Context, sdk.Filter, func(sdk.ContainerInfo) error) error {
	return w.note("ListContainers")
}
func (w *able) StreamIn(context.Context, sdk.VolumeID, sdk.StreamIn, io.Reader) error {
	return w.note("StreamIn")
}
func (w *able) StreamOut(context.Context, sdk.VolumeID, sdk.StreamOut, io.Writer) error {
	return w.note("StreamOut")
}
func (w *able) CreateContainer(context.Context, sdk.ContainerSpec, func(sdk.Progress)) error {
	return w.note("CreateContainer")
}
func (w *able) StartProcess(context.Context, sdk.ContainerID, sdk.ProcessSpec) error {
	return w.note("StartProcess")
}
func (w *able) ListProcesses(context.Context, sdk.ContainerID) ([]sdk.ProcessInfo, error) {
	return nil, w.note("ListProcesses")
}
func (w *able) FollowProcess(context.Context, sdk.ContainerID, sdk.ProcessID, sdk.Position, sdk.Follow) error {
	return w.note("FollowProcess")
}
func (w *able) SignalProcess(context.Context, sdk.ContainerID, sdk.ProcessID, sdk.Signal) error {
	return w.note("SignalProcess")
}
func (w *able) ResizeProcess(context.Context, sdk.ContainerID, sdk.ProcessID, sdk.TTY) error {
	return w.note("ResizeProcess")
}
func (w *able) PeerTicket(_ context.Context, id sdk.VolumeID, _ sdk.StreamIn) (sdk.PeerTicket, error) {
	if id == "big" {
		return sdk.PeerTicket{Data: make([]byte, sdk.MaxTicketBytes+1)}, nil
	}
	return sdk.PeerTicket{}, w.note("PeerTicket")
}
func (w *able) PeerSend(context.Context, sdk.VolumeID, sdk.StreamOut, sdk.PeerTicket) error {
	return w.note("PeerSend")
}
func (w *able) StatFile(context.Context, sdk.VolumeID, string) (sdk.FileInfo, error) {
	return sdk.FileInfo{}, w.note("StatFile")
}
func (w *able) ListFiles(context.Context, sdk.VolumeID, string, func(sdk.FileInfo) error) error {
	return w.note("ListFiles")
}
func (w *able) ReadFile(context.Context, sdk.VolumeID, string, int64, int64, io.Writer) error {
	return w.note("ReadFile")
}

// one is a runtime of one worker, "w".
type one struct{ worker sdk.Worker }

func (r one) Workers(_ context.Context, emit func(sdk.WorkerEvent) error) error {
	return emit(sdk.WorkerEvent{})
}

func (r one) Worker(name string) (sdk.Worker, error) {
	if name != "w" {
		return nil, sdk.NewNotFound(sdk.KindWorker, name)
	}
	return r.worker, nil
}

// full is what Checked makes of a worker.
type full interface {
	sdk.Worker
	sdk.Resizer
	sdk.PeerStreamer
	sdk.FileReader
}

func checked(t *testing.T, w sdk.Worker) full {
	t.Helper()
	got, err := sdk.Checked(one{w}).Worker("w")
	if err != nil {
		t.Fatal(err)
	}
	return got.(full)
}

// calls are all methods: with what is right (nothing else is told of), and with what is wrong and the reason for that.
func calls() map[string]struct {
	good func(context.Context, full) error
	bad  map[string]func(context.Context, full) error // by the reason, and a number where there are several
} {
	type ctx = context.Context
	type wrong = map[string]func(ctx, full) error
	const id, long = "x", sdk.MaxTicketBytes + 1
	return map[string]struct {
		good func(ctx, full) error
		bad  map[string]func(ctx, full) error
	}{
		"Status": {good: func(c ctx, w full) error { _, err := w.Status(c); return err }},
		"CreateVolume": {func(c ctx, w full) error { return w.CreateVolume(c, sdk.VolumeSpec{ID: id, Token: "t"}) }, wrong{
			"spec": func(c ctx, w full) error { return w.CreateVolume(c, sdk.VolumeSpec{ID: id}) },
		}},
		"SealVolume":     {func(c ctx, w full) error { return w.SealVolume(c, id) }, wrong{"spec": func(c ctx, w full) error { return w.SealVolume(c, "X") }}},
		"DestroyVolume":  {func(c ctx, w full) error { return w.DestroyVolume(c, id) }, wrong{"spec": func(c ctx, w full) error { return w.DestroyVolume(c, "..") }}},
		"ListVolumes":    {good: func(c ctx, w full) error { return w.ListVolumes(c, sdk.Filter{}, nil) }},
		"ListContainers": {good: func(c ctx, w full) error { return w.ListContainers(c, sdk.Filter{}, nil) }},
		"StreamIn": {func(c ctx, w full) error { return w.StreamIn(c, id, sdk.StreamIn{Path: "a/../b"}, nil) }, wrong{
			"spec":  func(c ctx, w full) error { return w.StreamIn(c, "", sdk.StreamIn{}, nil) },
			"path":  func(c ctx, w full) error { return w.StreamIn(c, id, sdk.StreamIn{Path: "/a"}, nil) },
			"path2": func(c ctx, w full) error { return w.StreamIn(c, id, sdk.StreamIn{Path: "a/../.."}, nil) },
			"path3": func(c ctx, w full) error { return w.StreamIn(c, id, sdk.StreamIn{Path: "a\x00"}, nil) },
		}},
		"StreamOut": {func(c ctx, w full) error { return w.StreamOut(c, id, sdk.StreamOut{}, nil) }, wrong{
			"spec": func(c ctx, w full) error { return w.StreamOut(c, "", sdk.StreamOut{}, nil) },
			"path": func(c ctx, w full) error { return w.StreamOut(c, id, sdk.StreamOut{Path: ".."}, nil) },
		}},
		"CreateContainer": {func(c ctx, w full) error { return w.CreateContainer(c, sdk.ContainerSpec{ID: id, Token: "t"}, nil) }, wrong{
			"path": func(c ctx, w full) error {
				return w.CreateContainer(c, sdk.ContainerSpec{ID: id, Token: "t", Dir: "a"}, nil)
			},
		}},
		"DestroyContainer": {func(c ctx, w full) error { return w.DestroyContainer(c, id) }, wrong{"spec": func(c ctx, w full) error { return w.DestroyContainer(c, "") }}},
		"StartProcess": {func(c ctx, w full) error {
			return w.StartProcess(c, id, sdk.ProcessSpec{ID: id, Token: "t", Path: "p"})
		}, wrong{
			"spec": func(c ctx, w full) error {
				return w.StartProcess(c, "", sdk.ProcessSpec{ID: id, Token: "t", Path: "p"})
			},
			"spec2": func(c ctx, w full) error { return w.StartProcess(c, id, sdk.ProcessSpec{ID: id, Token: "t"}) },
		}},
		"ListProcesses": {func(c ctx, w full) error { _, err := w.ListProcesses(c, id); return err }, wrong{
			"spec": func(c ctx, w full) error { _, err := w.ListProcesses(c, ""); return err },
		}},
		"FollowProcess": {func(c ctx, w full) error { return w.FollowProcess(c, id, id, 0, sdk.Follow{}) }, wrong{
			"spec":  func(c ctx, w full) error { return w.FollowProcess(c, id, id, -1, sdk.Follow{}) },
			"spec2": func(c ctx, w full) error { return w.FollowProcess(c, id, "", 0, sdk.Follow{}) },
			"spec3": func(c ctx, w full) error { return w.FollowProcess(c, "", id, 0, sdk.Follow{}) },
		}},
		"SignalProcess": {func(c ctx, w full) error { return w.SignalProcess(c, id, id, sdk.TERM) }, wrong{
			"signal": func(c ctx, w full) error { return w.SignalProcess(c, id, id, "SEGV") },
			"spec":   func(c ctx, w full) error { return w.SignalProcess(c, id, "", sdk.TERM) },
		}},
		"ResizeProcess": {func(c ctx, w full) error { return w.ResizeProcess(c, id, id, sdk.TTY{}) }, wrong{
			"spec": func(c ctx, w full) error { return w.ResizeProcess(c, id, "", sdk.TTY{}) },
		}},
		"PeerTicket": {func(c ctx, w full) error { _, err := w.PeerTicket(c, id, sdk.StreamIn{}); return err }, wrong{
			"spec":      func(c ctx, w full) error { _, err := w.PeerTicket(c, "", sdk.StreamIn{}); return err },
			"path":      func(c ctx, w full) error { _, err := w.PeerTicket(c, id, sdk.StreamIn{Path: "/"}); return err },
			"too-large": func(c ctx, w full) error { _, err := w.PeerTicket(c, "big", sdk.StreamIn{}); return err },
		}},
		"PeerSend": {func(c ctx, w full) error { return w.PeerSend(c, id, sdk.StreamOut{}, sdk.PeerTicket{}) }, wrong{
			"spec": func(c ctx, w full) error { return w.PeerSend(c, "", sdk.StreamOut{}, sdk.PeerTicket{}) },
			"path": func(c ctx, w full) error { return w.PeerSend(c, id, sdk.StreamOut{Path: "/"}, sdk.PeerTicket{}) },
			"too-large": func(c ctx, w full) error {
				return w.PeerSend(c, id, sdk.StreamOut{}, sdk.PeerTicket{Data: make([]byte, long)})
			},
		}},
		"StatFile": {func(c ctx, w full) error { _, err := w.StatFile(c, id, "a"); return err }, wrong{
			"path": func(c ctx, w full) error { _, err := w.StatFile(c, id, "/a"); return err },
		}},
		"ListFiles": {func(c ctx, w full) error { return w.ListFiles(c, id, "", nil) }, wrong{
			"path": func(c ctx, w full) error { return w.ListFiles(c, id, "../", nil) },
		}},
		"ReadFile": {func(c ctx, w full) error { return w.ReadFile(c, id, "a", 0, -1, nil) }, wrong{
			"spec": func(c ctx, w full) error { return w.ReadFile(c, id, "a", -1, -1, nil) },
			"path": func(c ctx, w full) error { return w.ReadFile(c, id, "/a", 0, -1, nil) },
		}},
	}
}

func TestCheckedLetsThroughWhatIsRight(t *testing.T) {
	for name, call := range calls() {
		w := &able{}
		if err := call.good(t.Context(), checked(t, w)); err != nil || !slices.Equal(w.called, []string{name}) {
			t.Errorf("%s: the worker saw %v, and the error is %v", name, w.called, err)
		}
	}
}

func TestCheckedRefusesWhatIsWrong(t *testing.T) {
	for name, call := range calls() {
		for reason, bad := range call.bad {
			w := &able{}
			err := bad(t.Context(), checked(t, w))
			if !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.Reason(strings.TrimRight(reason, "123"))) || len(w.called) != 0 {
				t.Errorf("%s, %s: %v, and the worker saw %v", name, reason, err, w.called)
			}
		}
	}
}

func TestCheckedHeedsContexts(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for name, call := range calls() {
		w := &able{}
		if err := call.good(ended, checked(t, w)); err != context.Canceled || len(w.called) != 0 {
			t.Errorf("%s: %v, and the worker saw %v", name, err, w.called)
		}
		for reason, bad := range call.bad {
			if err := bad(ended, checked(t, w)); err != context.Canceled {
				t.Errorf("%s, %s: %v", name, reason, err)
			}
		}
	}
	told := false
	err := sdk.Checked(one{}).Workers(ended, func(sdk.WorkerEvent) error { told = true; return nil })
	if err != context.Canceled || told {
		t.Errorf("Workers: %v, told %v", err, told)
	}
}

func TestCheckedOffersWhatThereIs(t *testing.T) {
	plain := checked(t, struct{ sdk.Worker }{&able{}})
	for name, feature := range map[string]sdk.Feature{
		"ResizeProcess": sdk.FeatureTTYResize, "PeerTicket": sdk.FeaturePeerStream,
		"PeerSend": sdk.FeaturePeerStream, "StatFile": sdk.FeatureFileRead, "ListFiles": sdk.FeatureFileRead, "ReadFile": sdk.FeatureFileRead,
	} {
		err := calls()[name].good(t.Context(), plain)
		var e *sdk.Error
		if !errors.As(err, &e) || e.Class != sdk.Unsupported || e.Feature != feature {
			t.Errorf("%s: %v, want Unsupported with %s", name, err, feature)
		}
	}
	for want, w := range map[int]sdk.Worker{1: plain, 2: checked(t, &able{})} {
		if s, err := w.Status(t.Context()); err != nil || len(s.Features) != want {
			t.Errorf("%v, %v, want %d features", s.Features, err, want)
		}
	}
	if _, err := sdk.Checked(one{}).Worker("other"); !sdk.IsNotFound(err, sdk.KindWorker) {
		t.Errorf("another worker: %v", err)
	}
}
