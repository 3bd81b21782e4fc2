package memory

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// ran is what a process was seen to do.
type ran struct {
	stdout, stderr string
	exit           sdk.Exit
}

func script(id sdk.ProcessID, text string) sdk.ProcessSpec {
	return sdk.ProcessSpec{ID: id, Token: "t", Path: "sh", Args: []string{"-c", text}}
}

// run runs a script to its end.
func run(t *testing.T, w sdk.Worker, c sdk.ContainerID, text string) ran {
	t.Helper()
	id := sdk.ProcessID(strings.ToLower(string(sdk.NewToken())))
	must(t, w.StartProcess(t.Context(), c, script(id, text)))
	return follow(t, w, c, id, sdk.Follow{})
}

func follow(t *testing.T, w sdk.Worker, c sdk.ContainerID, id sdk.ProcessID, with sdk.Follow) ran {
	t.Helper()
	var got collector
	f := got.follow()
	f.Stdin, f.Opened = with.Stdin, with.Opened
	must(t, w.FollowProcess(t.Context(), c, id, 0, f))
	if got.exit == nil {
		t.Fatal("followed to the end without an exit")
	}
	return ran{got.out[sdk.Stdout].String(), got.out[sdk.Stderr].String(), *got.exit}
}

// collector is a follower that keeps what it got.
type collector struct {
	out  [3]strings.Builder // by stream
	exit *sdk.Exit
}

func (c *collector) follow() sdk.Follow {
	return sdk.Follow{
		Output: func(records []sdk.Record) error {
			for _, r := range records {
				c.out[r.Stream].Write(r.Data)
			}
			return nil
		},
		Exit: func(e sdk.Exit) error { c.exit = &e; return nil },
	}
}

func TestProcessRunsOnce(t *testing.T) {
	w := newTestWorker(t, Options{})
	createVolume(t, w, "v")
	create(t, w, sdk.ContainerSpec{Mounts: []sdk.Mount{{Volume: "v", Path: "/v"}}})
	spec := script("p", "echo once >> /v/f; exit 7")
	for range 2 {
		must(t, w.StartProcess(t.Context(), "c", spec))
	}
	if got := follow(t, w, "c", "p", sdk.Follow{}); got.exit.Code != 7 || got.exit.Reason != sdk.ExitExited {
		t.Errorf("exit %+v", got.exit)
	}
	must(t, w.StartProcess(t.Context(), "c", spec)) // not again, for ever
	other := spec
	other.Token = "other"
	wantError(t, w.StartProcess(t.Context(), "c", other), sdk.AlreadyExists, sdk.KindProcess)
	if got := files(t, w, "v")["f"]; got != "once\n" {
		t.Errorf("the process left %q", got)
	}
	infos, err := w.ListProcesses(t.Context(), "c")
	must(t, err)
	if len(infos) != 1 || infos[0].State != sdk.ProcessExited || infos[0].Exit.Code != 7 || infos[0].Token != "t" {
		t.Errorf("listed as %+v", infos)
	}
}

func TestConcurrentStartsRunOnce(t *testing.T) {
	w := newTestWorker(t, Options{})
	createVolume(t, w, "v")
	create(t, w, sdk.ContainerSpec{Mounts: []sdk.Mount{{Volume: "v", Path: "/v"}}})
	for i := range testkit.Times(10, 50) {
		spec := script(sdk.ProcessID(fmt.Sprint("p", i)), fmt.Sprint("echo once >> /v/f", i))
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := w.StartProcess(t.Context(), "c", spec); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		follow(t, w, "c", spec.ID, sdk.Follow{})
	}
	must(t, w.DestroyContainer(t.Context(), "c"))
	for name, content := range files(t, w, "v") {
		if content != "once\n" {
			t.Errorf("%s has %q", name, content)
		}
	}
}

func TestProcessErrors(t *testing.T) {
	w := newTestWorker(t, Options{})
	createVolume(t, w, "v")
	fill(t, w, "v", map[string]string{"dir/": "", "binary": "\x7fELF"})
	create(t, w, sdk.ContainerSpec{Mounts: []sdk.Mount{{Volume: "v", Path: "/v"}}})
	start := func(change func(*sdk.ProcessSpec)) error {
		spec := script("p", "true")
		change(&spec)
		return asCalled(t, w).StartProcess(t.Context(), "c", spec)
	}
	wantError(t, start(func(s *sdk.ProcessSpec) { s.Path = "" }), sdk.Invalid, sdk.ReasonSpec)
	wantError(t, start(func(s *sdk.ProcessSpec) { s.Path = "no-such-program" }), sdk.Invalid, sdk.ReasonExecutableNotFound)
	wantError(t, start(func(s *sdk.ProcessSpec) { s.Path = "/no/such/program" }), sdk.Invalid, sdk.ReasonExecutableNotFound)
	wantError(t, start(func(s *sdk.ProcessSpec) { s.Path = "/v/dir" }), sdk.Invalid, sdk.ReasonNotExecutable)
	wantError(t, start(func(s *sdk.ProcessSpec) { s.Path = "/v/binary" }), sdk.Invalid, sdk.ReasonNotExecutable)
	wantError(t, start(func(s *sdk.ProcessSpec) { s.Dir = "/v/binary" }), sdk.Invalid, sdk.ReasonPath)
	wantError(t, start(func(s *sdk.ProcessSpec) { s.TTY = &sdk.TTY{} }), sdk.Unsupported, sdk.FeatureTTY)
	wantError(t, start(func(s *sdk.ProcessSpec) { s.User = "root" }), sdk.Unsupported, sdk.FeatureUsers)
	wantError(t, w.StartProcess(t.Context(), "missing", script("p", "true")), sdk.NotFound, sdk.KindContainer)
	if infos, err := w.ListProcesses(t.Context(), "c"); err != nil || len(infos) != 0 {
		t.Errorf("a start that failed left a record: %v, %v", infos, err)
	}
	wantError(t, w.FollowProcess(t.Context(), "c", "p", 0, sdk.Follow{}), sdk.NotFound, sdk.KindProcess)
	wantError(t, w.FollowProcess(t.Context(), "missing", "p", 0, sdk.Follow{}), sdk.NotFound, sdk.KindContainer)
	wantError(t, w.SignalProcess(t.Context(), "c", "p", sdk.TERM), sdk.NotFound, sdk.KindProcess)
	wantError(t, asCalled(t, w).SignalProcess(t.Context(), "c", "p", "WINCH"), sdk.Invalid, sdk.ReasonSignal)
	_, err := w.ListProcesses(t.Context(), "missing")
	wantError(t, err, sdk.NotFound, sdk.KindContainer)

	must(t, start(func(*sdk.ProcessSpec) {})) // the id is still good
	follow(t, w, "c", "p", sdk.Follow{})

	off := newTestWorker(t, Options{NoShell: true})
	create(t, off, sdk.ContainerSpec{})
	wantError(t, off.StartProcess(t.Context(), "c", script("p", "true")), sdk.Invalid, sdk.ReasonExecutableNotFound)
}

func TestSealWaitsForWriters(t *testing.T) {
	w := newTestWorker(t, Options{})
	for _, id := range []sdk.VolumeID{"rw", "ro", "idle"} {
		createVolume(t, w, id)
	}
	create(t, w, sdk.ContainerSpec{ID: "c", Mounts: []sdk.Mount{{Volume: "rw", Path: "/rw"}, {Volume: "ro", Path: "/ro", ReadOnly: true}}})
	create(t, w, sdk.ContainerSpec{ID: "idle", Mounts: []sdk.Mount{{Volume: "idle", Path: "/v"}}})
	spec := script("p", "read line; echo $line > /rw/f")
	spec.Stdin = true
	must(t, w.StartProcess(t.Context(), "c", spec))
	wantError(t, w.SealVolume(t.Context(), "rw"), sdk.FailedPrecondition, sdk.ReasonInUse)
	must(t, w.SealVolume(t.Context(), "ro"))
	must(t, w.SealVolume(t.Context(), "idle")) // mounted, but nothing runs
	follow(t, w, "c", "p", sdk.Follow{Stdin: strings.NewReader("hello\n")})
	must(t, w.SealVolume(t.Context(), "rw")) // at once after the exit
	if got := files(t, w, "rw")["f"]; got != "hello\n" {
		t.Errorf("sealed with %q", got)
	}
	for _, c := range []sdk.ContainerID{"c", "idle"} {
		wantError(t, w.StartProcess(t.Context(), c, script("q", "true")), sdk.FailedPrecondition, sdk.ReasonSealed)
	}
	must(t, w.StartProcess(t.Context(), "c", spec)) // this one has run
}

func TestProcessesHaveAnEnd(t *testing.T) {
	w := newTestWorker(t, Options{})
	create(t, w, sdk.ContainerSpec{})
	c := w.containers["c"]
	must(t, w.StartProcess(t.Context(), "c", script("p", "true")))
	follow(t, w, "c", "p", sdk.Follow{})
	for i := range sdk.MaxProcesses - 1 { // all the same one, but for the id
		c.processes[sdk.ProcessID(fmt.Sprint("p", i))] = c.processes["p"]
	}
	wantError(t, w.StartProcess(t.Context(), "c", script("last", "true")), sdk.FailedPrecondition, sdk.ReasonProcesses)
	must(t, w.StartProcess(t.Context(), "c", script("p", "true")))
}

func TestEnvironmentAndDirectory(t *testing.T) {
	w := newTestWorker(t, Options{})
	create(t, w, sdk.ContainerSpec{Dir: "/work/dir"})
	spec := script("p", `echo "$PATH|$HOME|$A|$PWD"; echo x > relative; cat /work/dir/relative`)
	spec.Env = []string{"A=b=c d"}
	must(t, w.StartProcess(t.Context(), "c", spec))
	want := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin|/root|b=c d|/work/dir\nx\n"
	if got := follow(t, w, "c", "p", sdk.Follow{}); got.stdout != want {
		t.Errorf("got %+v", got)
	}
	spec = script("q", "pwd; echo $HOME")
	spec.Env, spec.Dir = []string{"HOME=/h"}, "/made/where/missing"
	must(t, w.StartProcess(t.Context(), "c", spec))
	if got := follow(t, w, "c", "q", sdk.Follow{}); got.stdout != "/made/where/missing\n/h\n" {
		t.Errorf("got %+v", got)
	}
}

func TestStdin(t *testing.T) {
	w := newTestWorker(t, Options{})
	create(t, w, sdk.ContainerSpec{})
	big := strings.Repeat("0123456789abcdef", 1<<16)
	spec := script("p", "cat; echo done >&2")
	spec.Stdin = true
	must(t, w.StartProcess(t.Context(), "c", spec))
	if got := follow(t, w, "c", "p", sdk.Follow{Stdin: strings.NewReader(big)}); got.stdout != big || got.stderr != "done\n" {
		t.Errorf("%d bytes of %d came back, and %q", len(got.stdout), len(big), got.stderr)
	}
	must(t, w.StartProcess(t.Context(), "c", script("q", "cat; echo done"))) // stdin is at its end from the start
	if got := follow(t, w, "c", "q", sdk.Follow{}); got.stdout != "done\n" {
		t.Errorf("got %+v", got)
	}
	spec = script("r", "exit 3") // with stdin that it never reads
	spec.Stdin = true
	must(t, w.StartProcess(t.Context(), "c", spec))
	pr, pw := io.Pipe()
	defer pw.Close()
	if got := follow(t, w, "c", "r", sdk.Follow{Stdin: pr}); got.exit.Code != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestSignals(t *testing.T) {
	w := newTestWorker(t, Options{})
	create(t, w, sdk.ContainerSpec{})
	start := func(id sdk.ProcessID, text string) {
		t.Helper()
		must(t, w.StartProcess(t.Context(), "c", script(id, text)))
	}
	// signalled starts the script, waits until it says that it is ready, signals it, and gives its end.
	signalled := func(id sdk.ProcessID, text string, s sdk.Signal) ran {
		t.Helper()
		start(id, text+"; echo ready; while :; do sleep 0.01; done")
		var got collector
		f := got.follow()
		keep := f.Output
		f.Output = func(r []sdk.Record) error {
			ready := got.out[sdk.Stdout].Len() == 0
			if err := keep(r); err != nil || !ready {
				return err
			}
			return w.SignalProcess(t.Context(), "c", id, s)
		}
		must(t, w.FollowProcess(t.Context(), "c", id, 0, f))
		return ran{got.out[sdk.Stdout].String(), got.out[sdk.Stderr].String(), *got.exit}
	}
	for _, s := range []sdk.Signal{sdk.HUP, sdk.INT, sdk.QUIT, sdk.KILL, sdk.USR1, sdk.USR2, sdk.TERM} {
		id := sdk.ProcessID("plain-" + strings.ToLower(string(s)))
		if got := signalled(id, "true", s); got.exit.Code != 128+s.Number() || got.exit.Signal != s || got.exit.Reason != sdk.ExitSignalled {
			t.Errorf("%s: %+v", s, got.exit)
		}
		must(t, w.SignalProcess(t.Context(), "c", id, s)) // after the exit: nothing
	}
	must(t, w.SignalProcess(t.Context(), "c", "plain-term", sdk.STOP))
	if got := signalled("trap", `trap 'echo caught; exit 5' TERM`, sdk.TERM); got.exit.Code != 5 || got.exit.Signal != "" || got.stdout != "ready\ncaught\n" {
		t.Errorf("trapped: %+v", got)
	}
	if got := signalled("ignore", `trap '' TERM INT`, sdk.KILL); got.exit.Signal != sdk.KILL {
		t.Errorf("killed: %+v", got)
	}
	start("stop", "sleep 1000")
	must(t, w.SignalProcess(t.Context(), "c", "stop", sdk.STOP))
	must(t, w.SignalProcess(t.Context(), "c", "stop", sdk.KILL)) // also what is halted
	if got := follow(t, w, "c", "stop", sdk.Follow{}); got.exit.Code != 137 {
		t.Errorf("killed: %+v", got)
	}
}

func TestKillRightAfterStart(t *testing.T) {
	w := newTestWorker(t, Options{})
	create(t, w, sdk.ContainerSpec{})
	for i := range testkit.Times(40, 200) {
		id := sdk.ProcessID(fmt.Sprint("p", i))
		must(t, w.StartProcess(t.Context(), "c", script(id, "while :; do sleep 1000; done")))
		must(t, w.SignalProcess(t.Context(), "c", id, sdk.KILL))
		if got := follow(t, w, "c", id, sdk.Follow{}); got.exit.Code != 137 || got.exit.Signal != sdk.KILL {
			t.Fatalf("%d: %+v", i, got.exit)
		}
	}
}

func TestQuickOutputIsWhole(t *testing.T) {
	w := newTestWorker(t, Options{})
	create(t, w, sdk.ContainerSpec{})
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range testkit.Times(25, 250) {
				id := sdk.ProcessID(fmt.Sprintf("p%d-%d", worker, i))
				if err := w.StartProcess(t.Context(), "c", script(id, "echo hi")); err != nil {
					t.Error(err)
					return
				}
				var got collector
				f := got.follow()
				f.Exit = func(e sdk.Exit) error {
					if out := got.out[sdk.Stdout].String(); out != "hi\n" || e.Code != 0 {
						t.Errorf("%s: exit %+v after %q", id, e, out)
					}
					return nil
				}
				if err := w.FollowProcess(t.Context(), "c", id, 0, f); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestFollowerMayCrash(t *testing.T) {
	w := newTestWorker(t, Options{})
	create(t, w, sdk.ContainerSpec{})
	spec := script("p", "echo one; read line; echo two $line")
	spec.Stdin = true
	must(t, w.StartProcess(t.Context(), "c", spec))
	ctx, cancel := context.WithCancel(t.Context())
	err := w.FollowProcess(ctx, "c", "p", 0, sdk.Follow{
		Output: func([]sdk.Record) error { cancel(); return nil },
		Acks:   make(chan sdk.Position), // nothing is acknowledged
	})
	if err != context.Canceled {
		t.Fatalf("cancelled: %v", err)
	}
	if got := follow(t, w, "c", "p", sdk.Follow{Stdin: strings.NewReader("x\n")}); got.stdout != "one\ntwo x\n" {
		t.Errorf("got %+v", got)
	}
}

func TestDestroyWhileRunning(t *testing.T) {
	w := newTestWorker(t, Options{})
	createVolume(t, w, "v")
	for i := range testkit.Times(5, 20) {
		id := sdk.ContainerID(fmt.Sprint("c", i))
		must(t, w.CreateContainer(t.Context(), sdk.ContainerSpec{ID: id, Token: "t", Mounts: []sdk.Mount{{Volume: "v", Path: "/v"}}}, nil))
		must(t, w.StartProcess(t.Context(), id, script("p", "(while :; do echo x >> /v/f; done) & while :; do echo y; done")))
		opened, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- w.FollowProcess(t.Context(), id, "p", 0, sdk.Follow{Opened: func(sdk.Opened) error { close(opened); return nil }})
		}()
		<-opened
		must(t, w.DestroyContainer(t.Context(), id))
		before := volumes(t, w, sdk.Filter{})["v"].Bytes
		wantError(t, <-ended, sdk.NotFound, sdk.KindContainer)
		wantError(t, w.StartProcess(t.Context(), id, script("q", "true")), sdk.NotFound, sdk.KindContainer)
		if after := volumes(t, w, sdk.Filter{})["v"].Bytes; after != before {
			t.Fatalf("the volume grew from %d to %d bytes after the container was destroyed", before, after)
		}
	}
	must(t, w.SealVolume(t.Context(), "v"))
}

func TestStartsAndDestroysRace(t *testing.T) {
	w := newTestWorker(t, Options{})
	for i := range testkit.Times(20, 100) {
		id := sdk.ContainerID(fmt.Sprint("c", i))
		must(t, w.CreateContainer(t.Context(), sdk.ContainerSpec{ID: id, Token: "t"}, nil))
		var all sync.WaitGroup
		for p := range 4 {
			all.Go(func() {
				err := w.StartProcess(t.Context(), id, script(sdk.ProcessID(fmt.Sprint("p", p)), "echo hi"))
				if err != nil && !sdk.IsNotFound(err, sdk.KindContainer) && sdk.ClassOf(err) != sdk.FailedPrecondition {
					t.Errorf("start: %v", err)
				}
			})
		}
		all.Go(func() { must(t, w.DestroyContainer(t.Context(), id)) })
		all.Wait()
		must(t, w.DestroyContainer(t.Context(), id))
	}
}

func TestOutputIsCutAfterTheGrace(t *testing.T) { synctest.Test(t, testOutputIsCutAfterTheGrace) }

// testOutputIsCutAfterTheGrace has a clock of its own: what writes for a tenth of a second is never late, however slow the machine is.
func testOutputIsCutAfterTheGrace(t *testing.T) {
	w := newTestWorker(t, Options{})
	create(t, w, sdk.ContainerSpec{})
	if got := run(t, w, "c", "(while :; do sleep 0.01; echo late; done) & echo first; exit 4"); !got.exit.OutputCut || got.exit.Code != 4 ||
		!strings.Contains(got.stdout, "first\n") {
		t.Errorf("cut: %+v", got.exit)
	}
	if got := run(t, w, "c", "(sleep 0.1; echo late) & echo first"); got.exit.OutputCut || got.stdout != "first\nlate\n" {
		t.Errorf("not cut: %+v", got)
	}
}

func TestFullJournalBlocksOrDrops(t *testing.T) {
	w := newTestWorker(t, Options{})
	create(t, w, sdk.ContainerSpec{})
	const text = "i=0; while [ $i -lt 200 ]; do echo line $i; i=$((i+1)); done"
	for _, full := range []sdk.WhenFull{sdk.BlockWriter, sdk.DropOldest} {
		spec := script(sdk.ProcessID(fmt.Sprint("p", full)), text)
		spec.Spill, spec.WhenFull = 256, full
		must(t, w.StartProcess(t.Context(), "c", spec))
		if full == sdk.DropOldest { // it ends without a follower
			<-w.containers["c"].processes[spec.ID].ended
		}
		got := follow(t, w, "c", spec.ID, sdk.Follow{})
		whole := strings.HasPrefix(got.stdout, "line 0\nline 1\n") && strings.Count(got.stdout, "\n") == 200
		tail := len(got.stdout) == 256 && strings.HasSuffix(got.stdout, "line 198\nline 199\n")
		if full == sdk.BlockWriter && !whole || full == sdk.DropOldest && !tail {
			t.Errorf("%v: %d bytes", full, len(got.stdout))
		}
	}
}
