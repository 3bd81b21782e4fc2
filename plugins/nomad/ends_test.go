//go:build linux

package nomad

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// testEnds has containers end in ways that nobody asked the plugin for, each while a process runs there. It is lost, Nomad's words say why, and nothing begins anew.
func testEnds(t *testing.T, a *nomadtest.Agent) {
	_, n := open(t, a, config(a), nil)
	_, later := open(t, a, config(a), nil) // which knows nothing of them
	nomad := a.Client()
	kill := func(ctx context.Context, alloc *api.Allocation) error {
		err := nomad.Allocations().Signal(alloc, new(api.QueryOptions).WithContext(ctx), taskName, "SIGKILL")
		if err != nil && strings.Contains(err.Error(), "error reading from server: EOF") {
			return nil // the task's executor has ended with it before it could answer; that the task has is awaited
		}
		return err
	}
	for id, test := range map[sdk.ContainerID]struct {
		do    func(context.Context, *api.Allocation) error
		words []string // of the list; the first is also that of processes
	}{
		"stopped": {func(ctx context.Context, alloc *api.Allocation) error { // nomad alloc stop
			_, err := nomad.Allocations().Stop(alloc, new(api.QueryOptions).WithContext(ctx))
			return err
		}, []string{"Kill", placedAgain}},
		"deregistered": {func(ctx context.Context, alloc *api.Allocation) error { // nomad job stop
			_, _, err := nomad.Jobs().Deregister(alloc.JobID, false, new(api.WriteOptions).WithContext(ctx))
			return err
		}, []string{"Kill"}},
		"killed": {kill, []string{"Terminated", "Signal: 9"}},
		"restarted": {func(ctx context.Context, alloc *api.Allocation) error { // nomad alloc restart
			return nomad.Allocations().Restart(alloc, taskName, new(api.QueryOptions).WithContext(ctx))
		}, []string{"Restart"}},
		"cleared": {func(ctx context.Context, alloc *api.Allocation) error { // by the node, as soon as it may
			if err := kill(ctx, alloc); err != nil {
				return err
			}
			if err := untilOver(ctx, a, alloc.ID); err != nil {
				return err
			}
			if err := nomad.Allocations().GC(alloc, new(api.QueryOptions).WithContext(ctx)); !errors.Is(err, io.EOF) { // for it answers nothing
				return err
			}
			return nil
		}, []string{"Terminated", "Signal: 9"}},
	} {
		t.Run(string(id), func(t *testing.T) {
			t.Parallel()
			endsLost(t, a, []*node{n, later}, sdk.ContainerSpec{ID: id, Token: "t"}, "echo begun; exec sleep 1000", test.do, test.words)
		})
	}
}

// endsLost runs a script in a container, has an end made of that once it has said that it begun, and wants all that is told of it then to be true.
func endsLost(t *testing.T, a *nomadtest.Agent, nodes []*node, spec sdk.ContainerSpec, script string, do func(context.Context, *api.Allocation) error, words []string) {
	t.Helper()
	ctx := testkit.Context(t)
	n, id := nodes[0], spec.ID
	if err := n.CreateContainer(ctx, spec, nil); err != nil {
		t.Fatal(err)
	}
	p := sdk.ProcessSpec{ID: "p", Token: "t", Path: "/bin/sh", Args: []string{"-c", script}}
	if err := n.StartProcess(ctx, id, p); err != nil {
		t.Fatal(err)
	}
	stubs, _, err := a.Client().Jobs().Allocations(jobID(id), false, new(api.QueryOptions).WithContext(ctx))
	if err != nil || len(stubs) != 1 {
		t.Fatalf("it has the allocations %v; %v", stubs, err)
	}
	alloc, _, err := a.Client().Allocations().Info(stubs[0].ID, new(api.QueryOptions).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	begun, done := false, make(chan error, 1)
	var exit *sdk.Exit
	for err = sdk.NewUnavailable(nil, "not yet"); errors.Is(err, sdk.Unavailable); { // as a host does
		err = n.FollowProcess(ctx, id, p.ID, 0, sdk.Follow{
			Output: func([]sdk.Record) error {
				if !begun {
					begun = true
					go func() { done <- do(ctx, alloc) }()
				}
				return nil
			},
			Exit: func(e sdk.Exit) error { exit = &e; return nil },
		})
	}
	if begun {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	switch {
	case exit != nil && (exit.Code == 0 || exit.Signal != sdk.KILL): // its keeper may have seen its end before its own
		t.Errorf("exit %+v of a process that was killed with its container", exit)
	case exit == nil && !errors.Is(err, sdk.ReasonRecordLost) && !errors.Is(err, sdk.ReasonAbandoned): // which is what the records say of it while they can be read
		t.Errorf("whoever follows is told: %v; want it to be lost", err)
	}
	if err := untilOver(ctx, a, alloc.ID); err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		var listed sdk.ContainerInfo
		if err := n.ListContainers(ctx, sdk.Filter{ID: string(id)}, func(c sdk.ContainerInfo) error { listed = c; return nil }); err != nil || listed.State != sdk.ContainerGone {
			t.Errorf("plugin %d lists it as %+v; %v", i, listed, err)
		}
		_, listErr := n.ListProcesses(ctx, id)
		if !errors.Is(listErr, sdk.ReasonRecordLost) {
			t.Errorf("plugin %d lists its processes: %v", i, listErr)
		}
		for _, w := range words {
			if !strings.Contains(listed.Reason, w) {
				t.Errorf("plugin %d says %q of it; want it to say %q", i, listed.Reason, w)
			}
		}
		if err := n.StartProcess(ctx, id, p); !errors.Is(err, sdk.ReasonDead) {
			t.Errorf("plugin %d starts the process again: %v", i, err)
		}
		if listErr != nil && !strings.Contains(listErr.Error(), words[0]) {
			t.Errorf("plugin %d says %q of its processes; want it to say %q", i, listErr, words[0])
		}
	}
	if err := n.DestroyContainer(ctx, id); err != nil {
		t.Error(err)
	}
	if _, _, err := a.Client().Jobs().Info(jobID(id), new(api.QueryOptions).WithContext(ctx)); !missing(err) {
		t.Errorf("its job is left: %v", err)
	}
}

// untilOver waits until Nomad has heard from the node that an allocation has ended.
func untilOver(ctx context.Context, a *nomadtest.Agent, id string) error {
	for index := uint64(0); ; {
		alloc, meta, err := a.Client().Allocations().Info(id, (&api.QueryOptions{WaitIndex: index, WaitTime: time.Minute}).WithContext(ctx))
		if err != nil || alloc.ClientTerminalStatus() {
			return err
		}
		index = meta.LastIndex
	}
}
