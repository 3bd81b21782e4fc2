//go:build linux

package onnomad

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// patient is a time that no test is to see the end of.
var patient = sdk.Duration(testkit.Scale(2 * time.Minute))

// settings are a block's for the cluster that a is of.
func settings(a *nomadtest.Agent, driver string) nomad.Config {
	c := nomad.Config{
		Address: a.Address(), Namespace: "default", Driver: driver, Privileged: "deny", Architecture: runtime.GOARCH, ShimPath: program("slipway-shim"),
		CPU: 10, Memory: 32 << 20, MaxConnections: 32, Rate: 100,
		PlaceTimeout: patient, StartTimeout: patient, RequestTimeout: patient,
	}
	if driver == nomadtest.Docker {
		c.Image = nomadtest.Image
	}
	return c
}

// open makes a runtime with one block, "pool".
func open(t testing.TB, c nomad.Config) *nomad.Runtime {
	t.Helper()
	rt, err := nomad.New(map[string]nomad.Config{"pool": c}, nomad.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}

func nameOf(a *nomadtest.Agent) string { return "pool/" + a.NodeID()[:8] }

// until waits until what is told of workers is as wanted; told has those there are.
func until(t testing.TB, rt sdk.Runtime, what string, wanted func(told map[string]sdk.WorkerInfo) bool) {
	t.Helper()
	done := errors.New("done")
	told := make(map[string]sdk.WorkerInfo)
	err := rt.Workers(testkit.Context(t), func(e sdk.WorkerEvent) error {
		if e.Kind == sdk.WorkerSnapshot {
			clear(told)
		}
		for _, w := range e.Workers {
			if delete(told, w.Name); e.Kind != sdk.WorkerRemove {
				told[w.Name] = w
			}
		}
		if wanted(told) {
			return done
		}
		return nil
	})
	if err != done {
		t.Fatalf("%s: %v; there are %v", what, err, told)
	}
}

// workerOn waits for the worker of an agent's node.
func workerOn(t testing.TB, rt sdk.Runtime, a *nomadtest.Agent) sdk.Worker {
	t.Helper()
	name := nameOf(a)
	until(t, rt, "worker "+name, func(told map[string]sdk.WorkerInfo) bool { return told[name].Name != "" })
	w, err := rt.Worker(name)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// healthy waits until a worker is: until it is known what its node can do, and its store is up.
func healthy(t testing.TB, w sdk.Worker) sdk.Status {
	t.Helper()
	return shows(t, w, "the worker is healthy", func(s sdk.Status) bool { return s.Health == sdk.Healthy })
}

// shows waits until a worker says of itself what is wanted.
func shows(t testing.TB, w sdk.Worker, what string, wanted func(sdk.Status) bool) (s sdk.Status) {
	t.Helper()
	ctx, ok := testkit.Context(t), false
	defer func() {
		if !ok {
			t.Logf("it said last: %+v", s)
		}
	}()
	testkit.Until(t, what, func() bool {
		var err error
		if s, err = w.Status(ctx); err != nil {
			t.Fatal(err)
		}
		ok = wanted(s)
		return ok
	})
	return s
}

// spec is a container's that asks for nothing.
func spec(id string) sdk.ContainerSpec {
	return sdk.ContainerSpec{ID: sdk.ContainerID(id), Token: "t", Labels: map[string]string{sdk.LabelInstallation: "here"}}
}

// makeContainer makes a container that the test's end takes away.
func makeContainer(t testing.TB, w sdk.Worker, id string) sdk.ContainerID {
	t.Helper()
	return makeSpec(t, w, spec(id))
}

func makeSpec(t testing.TB, w sdk.Worker, s sdk.ContainerSpec) sdk.ContainerID {
	t.Helper()
	if err := w.CreateContainer(testkit.Context(t), s, nil); err != nil {
		t.Fatal(err)
	}
	goes(t, w, s.ID)
	return s.ID
}

// goes has the test's end take a container away.
func goes(t testing.TB, w sdk.Worker, id sdk.ContainerID) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(t))
		defer cancel()
		if err := settled(ctx, func() error { return w.DestroyContainer(ctx, id) }); err != nil {
			t.Error(err)
		}
	})
}

// settled makes a call again as long as its answer is only that it cannot be now, as hosts do: a node, or a server, may have just come back.
func settled(ctx context.Context, call func() error) error {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := call()
		if ctx.Err() != nil || !errors.Is(err, sdk.Unavailable) && !errors.Is(err, sdk.Exhausted) {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return err
		}
	}
}

func sh(id, script string) sdk.ProcessSpec {
	return sdk.ProcessSpec{ID: sdk.ProcessID(id), Token: "t", Path: "/bin/sh", Args: []string{"-ec", script}}
}

// run starts a command and follows it to its end.
func run(ctx context.Context, w sdk.Worker, id sdk.ContainerID, p sdk.ProcessSpec) (string, *sdk.Exit, error) {
	if err := w.StartProcess(ctx, id, p); err != nil {
		return "", nil, fmt.Errorf("start: %w", err)
	}
	return follow(ctx, w, id, p.ID, 0, nil)
}

// follow follows a process to its end; each is called with all that has come, whenever more does.
func follow(ctx context.Context, w sdk.Worker, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, each func(string)) (string, *sdk.Exit, error) {
	var out bytes.Buffer
	var exit *sdk.Exit
	err := w.FollowProcess(ctx, id, p, from, sdk.Follow{
		Output: func(records []sdk.Record) error {
			for _, r := range records {
				if r.IsGap() {
					return fmt.Errorf("there is a gap at %d", r.Position)
				}
				out.Write(r.Data)
			}
			if each != nil {
				each(out.String())
			}
			return nil
		},
		Exit: func(e sdk.Exit) error { exit = &e; return nil },
	})
	return out.String(), exit, err
}

// holdings are what is in a cluster: jobs, and allocations that are not over. A test has them before and after.
func holdings(ctx context.Context, t testing.TB, a *nomadtest.Agent) []string {
	t.Helper()
	everywhere := (&api.QueryOptions{Namespace: api.AllNamespacesNamespace}).WithContext(ctx)
	jobs, _, err := a.Client().Jobs().List(everywhere)
	if err != nil {
		t.Fatal(err)
	}
	allocs, _, err := a.Client().Allocations().List(everywhere)
	if err != nil {
		t.Fatal(err)
	}
	held := []string{}
	for _, j := range jobs {
		held = append(held, "job "+j.ID)
	}
	for _, l := range allocs {
		if l.ClientStatus == api.AllocClientStatusPending || l.ClientStatus == api.AllocClientStatusRunning {
			held = append(held, "allocation of "+l.JobID)
		}
	}
	slices.Sort(held)
	return held
}

// unchanged fails the test at its end if something was left in the cluster, or taken from it.
func unchanged(t testing.TB, a *nomadtest.Agent) {
	t.Helper()
	before := holdings(t.Context(), t, a)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(t))
		defer cancel()
		if after := holdings(ctx, t, a); !slices.Equal(before, after) {
			t.Errorf("in the cluster there was %q, and now is %q", before, after)
		}
	})
}

// says fails the test unless err is of a class and a reason, where they are named, and has all words.
func says(t testing.TB, err error, class sdk.Class, reason sdk.Reason, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; want %s", class)
		return
	}
	if class != "" && !errors.Is(err, class) || reason != "" && !errors.Is(err, reason) {
		t.Errorf("%v is %s; want %s %s", err, sdk.ClassOf(err), class, reason)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v; want it to say %q", err, w)
		}
	}
}
