//go:build linux

package onnomad

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// outOfSight has Nomad lose sight of a node whose tasks go on, and find it again: nothing of it is lost.
func (s *two) outOfSight(t *testing.T) {
	s.survives(t, "unseen", func(ctx context.Context) error {
		if err := s.allocations(ctx, "slipway-unseen", func(all []*api.AllocationListStub) bool { // a node that has not told of it would have begun nothing
			return len(all) == 1 && all[0].ClientStatus == api.AllocClientStatusRunning
		}); err != nil {
			return err
		}
		s.nodes[0].Kill()
		if err := errors.Join(s.server.SetHCL(heartbeats("1s")), s.server.Restart(ctx)); err != nil {
			return err
		}
		if err := s.allocations(ctx, "slipway-unseen", func(all []*api.AllocationListStub) bool {
			return len(all) == 1 && all[0].ClientStatus == api.AllocClientStatusUnknown
		}); err != nil {
			return err
		}
		// Neither a plugin that knows the container says that it is gone, nor one that has just been started.
		for _, w := range []sdk.Worker{s.w[0], workerOn(t, open(t, settings(s.server, nomadtest.RawExec)), s.nodes[0])} {
			if _, err := w.ListProcesses(ctx, "unseen"); !errors.Is(err, sdk.Unavailable) {
				return fmt.Errorf("its processes while it is not seen: %v, want unavailable", err)
			}
			if c, err := listed(ctx, w, "unseen"); err != nil || c.State != sdk.ContainerReady {
				return fmt.Errorf("it is listed as %+v, error %v", c, err)
			}
		}
		return s.nodes[0].Restart(ctx)
	})
}

// lost has Nomad give a node up. When it is back Nomad starts the container's job again: nothing may run in that.
func (s *two) lost(t *testing.T) {
	unchanged(t, s.server)
	ctx := testkit.Context(t)
	id := s.made(t, s.w[1], "lost")
	file := t.TempDir() + "/runs"
	p := sh("p", "echo run >>"+file+"; echo on; exec sleep 1000")
	if err := s.w[1].StartProcess(ctx, id, p); err != nil {
		t.Fatal(err)
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	if _, _, err := follow(following, s.w[1], id, p.ID, 0, func(string) { stop() }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	thaw := freeze(t, s.nodes[1]) // or it might be back before Nomad has given anything up
	if _, _, err := s.server.Client().Nodes().Purge(s.nodes[1].NodeID(), new(api.QueryOptions).WithContext(ctx)); err != nil {
		t.Fatal(err)
	}
	err := s.allocations(ctx, "slipway-lost", func(all []*api.AllocationListStub) bool {
		return len(all) == 1 && all[0].DesiredStatus == api.AllocDesiredStatusStop
	})
	if err != nil {
		t.Fatal(err)
	}
	thaw()
	err = s.allocations(ctx, "slipway-lost", func(all []*api.AllocationListStub) bool {
		if len(all) < 2 {
			return false
		}
		// The first may be called running for a while yet. Nomad may take the second back for it before that has run: nothing can run in that, either.
		newest := slices.MaxFunc(all, func(a, b *api.AllocationListStub) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
		return newest.ClientStatus != api.AllocClientStatusPending
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]sdk.Worker{"the same plugin": s.w[1], "another": workerOn(t, open(t, settings(s.server, nomadtest.RawExec)), s.nodes[1])} {
		t.Log(name)
		var err error
		for again := true; again; again = err == nil && ctx.Err() == nil { // as long as the first keeper dies
			err = settled(ctx, func() error { return w.StartProcess(ctx, id, p) })
		}
		says(t, err, sdk.FailedPrecondition, sdk.ReasonDead)
		_, _, err = follow(ctx, w, id, p.ID, 0, nil)
		says(t, err, sdk.FailedPrecondition, sdk.ReasonRecordLost)
		if c, err := listed(ctx, w, id); err != nil || c.State != sdk.ContainerGone || c.Reason == "" {
			t.Errorf("%s: it is listed as %+v, error %v", name, c, err)
		}
		says(t, w.CreateContainer(ctx, spec("lost"), nil), sdk.FailedPrecondition, sdk.ReasonDead)
	}
	s.ended(t, "slipway-lost")
	if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), "run") != 1 {
		t.Errorf("what ran: %q, error %v", text, err)
	}
}

// goneForGood takes a node away that does not come back, as one that was rented does. Nobody asks its worker any more: the other tells of what it left.
func (s *two) goneForGood(t *testing.T) {
	unchanged(t, s.server)
	ctx := testkit.Context(t)
	id := s.made(t, s.w[1], "left")
	s.nodes[1].Kill()
	if _, _, err := s.server.Client().Nodes().Purge(s.nodes[1].NodeID(), new(api.QueryOptions).WithContext(ctx)); err != nil { // as Nomad does a day later
		t.Fatal(err)
	}
	var all []sdk.ContainerInfo
	err := s.w[0].ListContainers(ctx, sdk.Filter{Labels: spec("").Labels}, func(c sdk.ContainerInfo) error { all = append(all, c); return nil })
	if err != nil || len(all) != 1 || all[0].ID != id || all[0].State != sdk.ContainerGone || all[0].Reason == "" {
		t.Errorf("listed: %+v, error %v", all, err)
	}
	if err := s.w[0].DestroyContainer(ctx, id); err != nil {
		t.Error(err)
	}
}

// freeze stops an agent as SIGSTOP does, and waits until all its threads have; they go on with the func that it gives, and at the test's end.
func freeze(t *testing.T, a *nomadtest.Agent) (thaw func()) {
	t.Helper()
	pid := a.PID()
	thaw = sync.OnceFunc(func() {
		if err := unix.Kill(pid, unix.SIGCONT); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(thaw)
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if err == nil {
			return thaw
		}
		if !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
	}
}

// allocations waits until those of a job are as wanted.
func (s *two) allocations(ctx context.Context, job string, wanted func([]*api.AllocationListStub) bool) error {
	for index := uint64(0); ; {
		all, meta, err := s.server.Client().Jobs().Allocations(job, true, (&api.QueryOptions{WaitIndex: index}).WithContext(ctx))
		if err != nil {
			return fmt.Errorf("the allocations of %s: %w", job, err)
		}
		if wanted(all) {
			return nil
		}
		index = meta.LastIndex
	}
}

// listed gives what a worker says of a container in its list.
func listed(ctx context.Context, w sdk.Worker, id sdk.ContainerID) (c sdk.ContainerInfo, err error) {
	err = w.ListContainers(ctx, sdk.Filter{}, func(i sdk.ContainerInfo) error {
		if i.ID == id {
			c = i
		}
		return nil
	})
	return c, err
}
