package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc/rpctest"
)

// faultyWorker is a worker with faults, and the same without.
func faultyWorker(t *testing.T, faults ...Fault) (before sdk.Worker, behind *worker) {
	t.Helper()
	for _, f := range faults {
		must(t, f.Check())
	}
	behind = newTestWorker(t, Options{})
	return withFaults(behind, faults), behind
}

func TestFaultsComeWhenTheyAreDue(t *testing.T) {
	w, behind := faultyWorker(t,
		Fault{Operation: "CreateVolume", Kind: FaultFail, After: 1, Count: 2},
		Fault{Operation: "CreateVolume", Kind: FaultFail, After: 4, Class: sdk.Exhausted, Reason: sdk.ReasonStorage},
		Fault{Operation: "DestroyVolume", Kind: FaultFail, Count: -1, Class: sdk.Internal},
	)
	for i, want := range []sdk.Class{"", sdk.Unavailable, sdk.Unavailable, "", sdk.Exhausted, ""} {
		id := sdk.VolumeID(fmt.Sprint("v", i))
		err := w.CreateVolume(t.Context(), sdk.VolumeSpec{ID: id, Token: "t"})
		if sdk.ClassOf(err) != want {
			t.Errorf("call %d: %v, want %q", i+1, err, want)
		}
		if made := len(volumes(t, behind, sdk.Filter{ID: string(id)})) == 1; made != (want == "") {
			t.Errorf("call %d: the volume was made: %v", i+1, made)
		}
		if want == sdk.Exhausted {
			wantError(t, err, sdk.Exhausted, sdk.ReasonStorage)
		}
	}
	for range 3 {
		wantError(t, w.DestroyVolume(t.Context(), "v0"), sdk.Internal, nil)
	}
	must(t, w.SealVolume(t.Context(), "v0")) // nothing is wrong with others
}

func TestFaultsLoseAnswers(t *testing.T) {
	w, behind := faultyWorker(t,
		Fault{Operation: "CreateVolume", Kind: FaultLose}, Fault{Operation: "CreateContainer", Kind: FaultLose},
		Fault{Operation: "StartProcess", Kind: FaultLose}, Fault{Operation: "ListProcesses", Kind: FaultLose},
	)
	spec := sdk.VolumeSpec{ID: "v", Token: "t"}
	wantError(t, w.CreateVolume(t.Context(), spec), sdk.Unavailable, nil)
	if got := volumes(t, behind, sdk.Filter{}); len(got) != 1 {
		t.Errorf("volumes %v", got)
	}
	must(t, w.CreateVolume(t.Context(), spec)) // the same again, as a host does
	container := sdk.ContainerSpec{ID: "c", Token: "t", Mounts: []sdk.Mount{{Volume: "v", Path: "/v"}}}
	wantError(t, w.CreateContainer(t.Context(), container, nil), sdk.Unavailable, nil)
	must(t, w.CreateContainer(t.Context(), container, nil))
	process := script("p", "echo once >> /v/f")
	wantError(t, w.StartProcess(t.Context(), "c", process), sdk.Unavailable, nil)
	if infos, err := w.ListProcesses(t.Context(), "c"); infos != nil || sdk.ClassOf(err) != sdk.Unavailable {
		t.Errorf("an answer that was lost: %v, %v", infos, err)
	}
	must(t, w.StartProcess(t.Context(), "c", process))
	follow(t, w, "c", "p", sdk.Follow{})
	if got := files(t, w, "v")["f"]; got != "once\n" {
		t.Errorf("the process left %q", got)
	}
}

func TestFaultsHangAndDelay(t *testing.T) { synctest.Test(t, testFaultsHangAndDelay) }

func testFaultsHangAndDelay(t *testing.T) {
	w, behind := faultyWorker(t,
		Fault{Operation: "CreateVolume", Kind: FaultHang}, Fault{Operation: "CreateVolume", Kind: FaultHang, After: 1, Effect: true},
		Fault{Operation: "CreateVolume", Kind: FaultDelay, After: 2, Delay: time.Hour},
		Fault{Operation: "CreateVolume", Kind: FaultDelay, After: 3, Delay: time.Hour + 1},
	)
	create := func(id sdk.VolumeID) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		return w.CreateVolume(ctx, sdk.VolumeSpec{ID: id, Token: "t"})
	}
	if err := create("none"); err != context.DeadlineExceeded {
		t.Errorf("a call that hangs: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	made := make(chan error, 1)
	go func() { made <- w.CreateVolume(ctx, sdk.VolumeSpec{ID: "made", Token: "t"}) }()
	synctest.Wait() // it hangs, or has returned
	select {
	case err := <-made:
		t.Fatalf("a call that hangs after its effect: %v", err)
	default:
	}
	if len(volumes(t, behind, sdk.Filter{})) != 1 {
		t.Error("a call that hangs after its effect has none")
	}
	cancel()
	if err := <-made; err != context.Canceled {
		t.Errorf("a call that hangs after its effect: %v", err)
	}
	began := time.Now()
	createVolume(t, w, "late")
	if took := time.Since(began); took != time.Hour {
		t.Errorf("a delay of an hour took %v", took)
	}
	if err := create("never"); err != context.DeadlineExceeded {
		t.Errorf("a delay beyond the deadline: %v", err)
	}
	got := volumes(t, behind, sdk.Filter{})
	if len(got) != 2 || got["made"].ID == "" || got["late"].ID == "" {
		t.Errorf("volumes %v", got)
	}
}

func TestFaultsCutStreams(t *testing.T) {
	w, behind := faultyWorker(t,
		Fault{Operation: "StreamIn", Kind: FaultCut, Bytes: 700}, Fault{Operation: "StreamOut", Kind: FaultCut, Bytes: 600},
		Fault{Operation: "ReadFile", Kind: FaultCut, Bytes: 3}, Fault{Operation: "FollowProcess", Kind: FaultCut, Bytes: 5, Count: 2},
		Fault{Operation: "StreamOut", Kind: FaultCut, After: 1, Bytes: 1 << 20},
	)
	tarball := archive(t, map[string]string{"f": strings.Repeat("content ", 100)})
	createVolume(t, w, "broken")
	wantError(t, w.StreamIn(t.Context(), "broken", sdk.StreamIn{}, bytes.NewReader(tarball)), sdk.Unavailable, nil)
	if got := files(t, behind, "broken"); len(got) != 0 {
		t.Errorf("a file appeared in part: %v", got)
	}
	createVolume(t, w, "v")
	must(t, w.StreamIn(t.Context(), "v", sdk.StreamIn{}, bytes.NewReader(tarball)))

	var out bytes.Buffer
	wantError(t, w.StreamOut(t.Context(), "v", sdk.StreamOut{}, &out), sdk.Unavailable, nil)
	if out.Len() != 600 {
		t.Errorf("%d bytes passed", out.Len())
	}
	must(t, w.StreamOut(t.Context(), "v", sdk.StreamOut{}, io.Discard)) // shorter than the cut
	out.Reset()
	wantError(t, sdk.ReadFile(t.Context(), w, statusOf(t, w), "v", "f", &out), sdk.Unavailable, nil)
	if out.String() != "con" {
		t.Errorf("%q passed", &out)
	}

	create(t, w, sdk.ContainerSpec{})
	must(t, w.StartProcess(t.Context(), "c", script("p", "printf 0123456789; printf abcdef >&2")))
	var got collector
	f := got.follow()
	for from := sdk.Position(0); from <= 5; from += 5 { // goes on where it was cut
		wantError(t, w.FollowProcess(t.Context(), "c", "p", from, f), sdk.Unavailable, nil)
	}
	if got.out[sdk.Stdout].String() != "0123456789" || got.exit != nil {
		t.Errorf("followed %q and %v", &got.out[sdk.Stdout], got.exit)
	}
	must(t, w.FollowProcess(t.Context(), "c", "p", 10, f))
	if got.out[sdk.Stderr].String() != "abcdef" || got.exit == nil {
		t.Errorf("followed %q and %v in the end", &got.out[sdk.Stderr], got.exit)
	}
}

// Every operation can fail, and what was not told of stays as it was; over the wire, too.
func TestFaultsOfEveryOperation(t *testing.T) {
	for _, operation := range FaultOperations() {
		w, _ := faultyWorker(t, Fault{Operation: operation, Kind: FaultFail, Class: sdk.Exhausted, Reason: "a-reason"})
		wantError(t, callOperation(t, w, operation), sdk.Exhausted, sdk.Reason("a-reason"))
		if err := callOperation(t, w, operation); errors.Is(err, sdk.Reason("a-reason")) {
			t.Errorf("%s failed twice: %v", operation, err)
		}
	}
	rt := rpctest.Open(t, Plugin(), config(`{}`, map[string]string{"w": `{"fault": [
		{"operation": "Status", "kind": "fail", "class": "failed-precondition", "reason": "dead", "after": 1, "count": 1}
	]}`}))
	w := openWorker(t, rt, "w")
	if s := statusOf(t, w); s.Has(sdk.FeatureTTYResize) || s.Has(sdk.FeaturePeerStream) || !s.Has(sdk.FeatureFileRead) {
		t.Errorf("features %v", s.Features)
	}
	_, err := openWorker(t, rt, "w").Status(t.Context()) // of another handle
	wantError(t, err, sdk.FailedPrecondition, sdk.ReasonDead)
	statusOf(t, w)
}

func callOperation(t *testing.T, w sdk.Worker, operation string) (err error) {
	t.Helper()
	ctx := t.Context()
	f := w.(*faulty)
	switch operation {
	case "Status":
		_, err = w.Status(ctx)
	case "CreateVolume":
		err = w.CreateVolume(ctx, sdk.VolumeSpec{})
	case "SealVolume":
		err = w.SealVolume(ctx, "v")
	case "ListVolumes":
		err = w.ListVolumes(ctx, sdk.Filter{}, nil)
	case "DestroyVolume":
		err = w.DestroyVolume(ctx, "v")
	case "StreamIn":
		err = w.StreamIn(ctx, "v", sdk.StreamIn{}, strings.NewReader(""))
	case "StreamOut":
		err = w.StreamOut(ctx, "v", sdk.StreamOut{}, io.Discard)
	case "CreateContainer":
		err = w.CreateContainer(ctx, sdk.ContainerSpec{}, nil)
	case "ListContainers":
		err = w.ListContainers(ctx, sdk.Filter{}, nil)
	case "DestroyContainer":
		err = w.DestroyContainer(ctx, "c")
	case "StartProcess":
		err = w.StartProcess(ctx, "c", script("p", "true"))
	case "ListProcesses":
		_, err = w.ListProcesses(ctx, "c")
	case "FollowProcess":
		err = w.FollowProcess(ctx, "c", "p", 0, sdk.Follow{})
	case "SignalProcess":
		err = w.SignalProcess(ctx, "c", "p", sdk.TERM)
	case "StatFile":
		_, err = f.StatFile(ctx, "v", "f")
	case "ListFiles":
		err = f.ListFiles(ctx, "v", "", nil)
	case "ReadFile":
		err = f.ReadFile(ctx, "v", "f", 0, -1, io.Discard)
	case "ResizeProcess":
		err = f.ResizeProcess(ctx, "c", "p", sdk.TTY{})
	case "PeerTicket":
		_, err = f.PeerTicket(ctx, "v", sdk.StreamIn{})
	case "PeerSend":
		err = f.PeerSend(ctx, "v", sdk.StreamOut{}, sdk.PeerTicket{})
	default:
		t.Fatalf("the test cannot call %s", operation)
	}
	return err
}

func TestFaultsAreChecked(t *testing.T) {
	for says, f := range map[string]Fault{
		`did you mean "CreateVolume"?`: {Operation: "createvolume", Kind: FaultFail},
		"there are Status":             {Operation: "Dance", Kind: FaultFail},
		`kind "explode"`:               {Operation: "Status", Kind: "explode"},
		"after is -1":                  {Operation: "Status", Kind: FaultFail, After: -1},
		"needs a delay":                {Operation: "Status", Kind: FaultDelay},
		"delay means nothing":          {Operation: "Status", Kind: FaultFail, Delay: 1},
		"has no stream":                {Operation: "Status", Kind: FaultCut},
		"bytes is -1":                  {Operation: "StreamIn", Kind: FaultCut, Bytes: -1},
		"bytes is 5":                   {Operation: "StreamIn", Kind: FaultFail, Bytes: 5},
		"class and reason":             {Operation: "Status", Kind: FaultLose, Class: sdk.Invalid},
		`class "sad"`:                  {Operation: "Status", Kind: FaultFail, Class: "sad"},
		"effect means nothing":         {Operation: "Status", Kind: FaultFail, Effect: true},
	} {
		if err := f.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q in it", f, err, says)
		}
	}
	_, err := Plugin().Open(t.Context(), config(``, map[string]string{"left": `{"fault": [
		{"operation": "Status", "kind": "fail"}, {"operation": "SealVolum", "kind": "fail"}
	]}`}))
	wantError(t, err, sdk.Invalid, sdk.ReasonConfig)
	for _, want := range []string{`worker "left"`, "fault 2", `did you mean "SealVolume"?`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

// callEnv makes the test binary a plugin that calls its own worker once; the value is the worker's configuration.
const (
	callEnv   = "SLIPWAY_TEST_CALL"
	socketEnv = "SLIPWAY_TEST_SOCKET"
)

func callOnce(worker string) {
	rt, err := Plugin().Open(context.Background(), config(`{"world": "unix:`+os.Getenv(socketEnv)+`"}`, map[string]string{"w": worker}))
	if err == nil {
		var w sdk.Worker
		if w, err = rt.Worker("w"); err == nil {
			err = w.CreateVolume(context.Background(), sdk.VolumeSpec{ID: sdk.VolumeID(os.Args[1]), Token: "t"})
		}
	}
	fmt.Println(err)
}

// A plugin that crashes before or after the effect, in front of a world that tells which it was.
func TestFaultsCrashThePlugin(t *testing.T) {
	socket := socketPath(t)
	startWorld(t, "--socket", socket, "--worker", "w")
	world := openWorker(t, openProxy(t, socket, "w"), "w")
	for _, c := range []struct {
		volume sdk.VolumeID
		worker string
		code   int
		made   bool
	}{
		{"before", `{"fault": [{"operation": "CreateVolume", "kind": "crash"}]}`, CrashCode, false},
		{"behind", `{"fault": [{"operation": "CreateVolume", "kind": "crash", "effect": true}]}`, CrashCode, true},
		{"later", `{"fault": [{"operation": "CreateVolume", "kind": "crash", "after": 1}]}`, 0, true},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], string(c.volume))
		cmd.Env = append(os.Environ(), callEnv+"="+c.worker, socketEnv+"="+socket)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, _ := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code != c.code || (code != 0) != strings.Contains(errs.String(), "CreateVolume") {
			t.Errorf("%s: exited with %d, want %d; it says %q and %q", c.volume, code, c.code, out, &errs)
		}
		if made := len(volumes(t, world, sdk.Filter{ID: string(c.volume)})) == 1; made != c.made {
			t.Errorf("%s: the volume was made: %v", c.volume, made)
		}
	}
}
