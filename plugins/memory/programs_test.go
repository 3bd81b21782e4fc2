package memory

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory/internal/wasi/wasitest"
	"github.com/slipway-run/slipway/sdk"
)

// TestPrograms runs WASI programs as processes: on a worker with a shell, and on one without. All have one runtime, so that the
// probe is compiled once.
func TestPrograms(t *testing.T) {
	r := New([]string{"both", "sandbox"}, Options{Interpret: true, Workers: map[string]WorkerOptions{"sandbox": {NoShell: true}}})
	probe := string(wasitest.Build(t))
	workers := map[string]*worker{}
	for name := range r.workers {
		w := r.workers[name]
		workers[name] = w
		createVolume(t, w, "bin")
		fill(t, w, "bin", map[string]string{"probe": probe, "script": "#!/bin/sh\necho script\n"})
		must(t, w.SealVolume(t.Context(), "bin"))
		createVolume(t, w, "work")
		must(t, w.CreateContainer(t.Context(), sdk.ContainerSpec{ID: "c", Token: "t", Dir: "/work/dir", Mounts: []sdk.Mount{
			{Volume: "bin", Path: "/opt/bin", ReadOnly: true}, {Volume: "work", Path: "/work"},
		}}, nil))
	}
	t.Cleanup(func() { must(t, r.Close(context.Background())) })
	both, sandbox := workers["both"], workers["sandbox"]

	spec := func(args ...string) sdk.ProcessSpec {
		return sdk.ProcessSpec{
			ID: sdk.ProcessID(strings.ToLower(string(sdk.NewToken()))), Token: "t", Path: "probe", Args: args,
			Env: []string{"PATH=/bin:/opt/bin", "A=b"},
		}
	}
	exec := func(t *testing.T, w sdk.Worker, s sdk.ProcessSpec, with sdk.Follow) ran {
		t.Helper()
		must(t, w.StartProcess(t.Context(), "c", s))
		return follow(t, w, "c", s.ID, with)
	}

	for name, w := range workers {
		t.Run(name, func(t *testing.T) {
			if got := exec(t, w, spec("args", "x"), sdk.Follow{}); got.stdout != "3\nprobe|args|x\n" || got.exit.Code != 0 || got.exit.PeakMemoryBytes == 0 {
				t.Errorf("got %+v", got)
			}
			if got := exec(t, w, spec("exit", "9"), sdk.Follow{}); got.exit.Code != 9 || got.exit.Reason != sdk.ExitExited {
				t.Errorf("got %+v", got)
			}
			if got := exec(t, w, spec("env"), sdk.Follow{}); got.stdout != "A=b\nHOME=/root\nPATH=/bin:/opt/bin\nPWD=/work/dir\n" {
				t.Errorf("got %+v", got)
			}
			s := spec("write", "made", "by a program")
			s.Dir = "/work/other"
			if got := exec(t, w, s, sdk.Follow{}); got.exit.Code != 0 || files(t, w, "work")["other/made"] != "by a program" {
				t.Errorf("got %+v", got)
			}
			if got := exec(t, w, spec("writable", "/opt/bin/new"), sdk.Follow{}); got.stdout != "Read-only file system\n" {
				t.Errorf("got %+v", got)
			}
			s = spec("cat")
			s.Stdin = true
			if got := exec(t, w, s, sdk.Follow{Stdin: strings.NewReader("in and out")}); got.stdout != "in and out" {
				t.Errorf("got %+v", got)
			}
		})
		t.Run(name+" signals", func(t *testing.T) {
			for signal, code := range map[sdk.Signal]int{sdk.TERM: 143, sdk.INT: 130, sdk.KILL: 137, sdk.USR1: 138} {
				for _, what := range []string{"spin", "sleep", "flood"} { // the last one waits for its follower
					t.Run(what+" by "+string(signal), func(t *testing.T) {
						if signal != sdk.TERM && what != "sleep" {
							testkit.Soak(t, "each program by each signal")
						}
						s := spec(what)
						s.Spill = 64 << 10
						must(t, w.StartProcess(t.Context(), "c", s))
						awaitOutput(t, w, s.ID)
						must(t, w.SignalProcess(t.Context(), "c", s.ID, sdk.CONT)) // means nothing
						must(t, w.SignalProcess(t.Context(), "c", s.ID, signal))
						if got := follow(t, w, "c", s.ID, sdk.Follow{}); got.exit.Code != code || got.exit.Signal != signal || got.exit.Reason != sdk.ExitSignalled {
							t.Errorf("got %+v", got.exit)
						}
					})
				}
			}
		})
	}

	t.Run("features", func(t *testing.T) {
		for _, f := range []sdk.Feature{sdk.FeatureLimitsMemory, sdk.FeatureExitOOM} {
			if statusOf(t, both).Has(f) || !statusOf(t, sandbox).Has(f) {
				t.Errorf("%s is named with a shell, or not named without one", f)
			}
		}
	})

	t.Run("scripts", func(t *testing.T) {
		script := spec()
		for _, path := range []string{"sh", "/bin/sh", "cat", "/usr/bin/env"} {
			script.Path = path
			wantError(t, sandbox.StartProcess(t.Context(), "c", script), sdk.Invalid, sdk.ReasonExecutableNotFound)
		}
		script.Path = "script"
		wantError(t, sandbox.StartProcess(t.Context(), "c", script), sdk.Invalid, sdk.ReasonNotExecutable)
		if got := exec(t, both, script, sdk.Follow{}); got.stdout != "script\n" {
			t.Errorf("got %+v", got)
		}
	})

	t.Run("in scripts", func(t *testing.T) {
		must(t, both.StartProcess(t.Context(), "c", sdk.ProcessSpec{ID: "script", Token: "t", Path: "sh", Env: []string{"PATH=/usr/bin:/opt/bin"}, Args: []string{"-c", `
			printf 'one\ntwo\n' | probe cat | sort -r
			probe exit 3; echo $?
			umask 077; probe write private x; stat -c %a private
			cd /; X=1 /opt/bin/probe env | grep -e X= -e PWD=
			command -v probe
			echo a b | xargs probe args
			probe flood | head -n 1; echo ${?}
			probe sleep & kill $!; wait $!; echo $?
			trap '' TERM; probe args ignoring
		`}}))
		want := "two\none\n3\n600\nPWD=/\nX=1\n/opt/bin/probe\n4\nprobe|args|a|b\ny\n0\n143\n3\nprobe|args|ignoring\n"
		if got := follow(t, both, "c", "script", sdk.Follow{}); strings.Replace(got.stdout, "sleeping\n", "", 1) != want {
			t.Errorf("got %q, want %q; %s", got.stdout, want, got.stderr)
		}
	})

	t.Run("memory", func(t *testing.T) {
		create := func(id sdk.ContainerID, limit int64) {
			must(t, sandbox.CreateContainer(t.Context(), sdk.ContainerSpec{ID: id, Token: "t", Limits: sdk.Resources{MemoryBytes: limit}, Mounts: []sdk.Mount{
				{Volume: "bin", Path: "/opt/bin", ReadOnly: true},
			}}, nil))
		}
		create("small", 32<<20)
		alloc := func(mib int) sdk.ProcessSpec { return spec("alloc", fmt.Sprint(mib)) }
		start := func(s sdk.ProcessSpec) ran {
			must(t, sandbox.StartProcess(t.Context(), "small", s))
			return follow(t, sandbox, "small", s.ID, sdk.Follow{})
		}
		if got := start(alloc(4)); got.exit.Code != 0 {
			t.Errorf("4 MiB of 32: %+v", got)
		}
		got := start(alloc(60))
		if got.exit.Code != 137 || got.exit.Reason != sdk.ExitOOM || got.exit.Signal != "" || !strings.Contains(got.exit.Message, `container "small"`) || !strings.Contains(got.stderr, "out of memory") {
			t.Errorf("60 MiB of 32: %+v", got)
		}
		// What another process has is not there.
		holder := alloc(16)
		holder.Args, holder.Stdin = append(holder.Args, "hold"), true
		must(t, sandbox.StartProcess(t.Context(), "small", holder))
		awaitOutputIn(t, sandbox, "small", holder.ID)
		if got := start(alloc(16)); got.exit.Reason != sdk.ExitOOM {
			t.Errorf("16 MiB beside 16 of 32: %+v", got)
		}
		must(t, sandbox.SignalProcess(t.Context(), "small", holder.ID, sdk.KILL))
		if got := follow(t, sandbox, "small", holder.ID, sdk.Follow{}); got.exit.Reason != sdk.ExitSignalled {
			t.Errorf("what was killed: %+v", got.exit)
		}
		if got := start(alloc(16)); got.exit.Code != 0 {
			t.Errorf("16 MiB of 32, alone again: %+v", got)
		}
		must(t, sandbox.DestroyContainer(t.Context(), "small"))
		wantError(t, both.CreateContainer(t.Context(), sdk.ContainerSpec{ID: "l", Token: "t", Limits: sdk.Resources{MemoryBytes: 1 << 30}}, nil),
			sdk.Unsupported, sdk.FeatureLimitsMemory)
	})

	t.Run("destroyed", func(t *testing.T) {
		must(t, sandbox.CreateContainer(t.Context(), sdk.ContainerSpec{ID: "d", Token: "t", Mounts: []sdk.Mount{{Volume: "bin", Path: "/opt/bin", ReadOnly: true}}}, nil))
		s := spec("spin")
		must(t, sandbox.StartProcess(t.Context(), "d", s))
		awaitOutputIn(t, sandbox, "d", s.ID)
		must(t, sandbox.DestroyContainer(t.Context(), "d"))
	})
}

// A worker without programs takes none, and a plugin's damaged ones fail where one sees it.
func TestProgramsThatDoNotRun(t *testing.T) {
	for _, c := range []struct {
		opts   Options
		reason sdk.Reason
	}{
		{Options{NoPrograms: true}, sdk.ReasonNotExecutable},
		{Options{NoPrograms: true, NoShell: true}, sdk.ReasonNotExecutable},
		{Options{}, ""},
	} {
		w := newTestWorker(t, c.opts)
		createVolume(t, w, "v")
		fill(t, w, "v", map[string]string{"broken": "\x00asm\x01\x00\x00\x00broken"})
		create(t, w, sdk.ContainerSpec{Mounts: []sdk.Mount{{Volume: "v", Path: "/v"}}})
		s := sdk.ProcessSpec{ID: "p", Token: "t", Path: "/v/broken"}
		if c.reason != "" {
			wantError(t, w.StartProcess(t.Context(), "c", s), sdk.Invalid, c.reason)
			continue
		}
		must(t, w.StartProcess(t.Context(), "c", s))
		got := follow(t, w, "c", "p", sdk.Follow{})
		if got.exit.Code != 126 || !strings.Contains(got.exit.Message, "/v/broken") || !strings.Contains(got.stderr, "damaged") {
			t.Errorf("got %+v", got)
		}
	}
}

func awaitOutput(t *testing.T, w sdk.Worker, id sdk.ProcessID) {
	t.Helper()
	awaitOutputIn(t, w, "c", id)
}

// awaitOutputIn waits until a process has written something, and leaves it there.
func awaitOutputIn(t *testing.T, w sdk.Worker, c sdk.ContainerID, id sdk.ProcessID) {
	t.Helper()
	err := w.FollowProcess(t.Context(), c, id, 0, sdk.Follow{
		Output: func(r []sdk.Record) error {
			if slices.ContainsFunc(r, func(r sdk.Record) bool { return len(r.Data) > 0 }) {
				return io.EOF
			}
			return nil
		},
		Exit: func(e sdk.Exit) error { return fmt.Errorf("it ended with %+v", e) },
	})
	if err != io.EOF {
		t.Fatal(err)
	}
}
