//go:build linux

package onnomad

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// two are a server and two nodes, and the plugin's workers on them.
type two struct {
	server *nomadtest.Agent
	nodes  []*nomadtest.Agent
	w      []sdk.Worker
}

// TestTwoNodes has two nodes under one server, and takes them away and back.
func TestTwoNodes(t *testing.T) {
	testkit.Soak(t, "several agents")
	server, nodes := nomadtest.StartCluster(t, nomadtest.Options{HCL: heartbeats("1h")}, nomadtest.Options{}, nomadtest.Options{HCL: `client { node_class = "second" }`})
	s := &two{server: server, nodes: nodes}
	rt := open(t, settings(server, nomadtest.RawExec))
	for _, n := range nodes {
		s.w = append(s.w, workerOn(t, rt, n))
	}
	t.Run("each its own", s.eachItsOwn)
	t.Run("agent killed", s.agentKilled)
	t.Run("agent restarted", s.agentRestarted)
	t.Run("ineligible", s.ineligible)
	t.Run("drained", s.drained)
	t.Run("drained by force", s.drainedByForce)
	t.Run("bad block", s.badBlock)
	t.Run("others", s.others)
	t.Run("no leader", s.noLeader)
	t.Run("lost", s.lost)
	t.Run("out of sight", s.outOfSight) // late, for its server loses sight of nodes
	t.Run("gone for good", s.goneForGood)
}

// heartbeats has nodes report each second or two. A silent one counts as down after an hour, for on a slow machine any may be silent for a while; or, where
// a server has just begun to lead, after failover.
func heartbeats(failover string) string {
	return fmt.Sprintf("server {\n heartbeat_grace = \"1h\"\n min_heartbeat_ttl = \"1s\"\n failover_heartbeat_ttl = %q\n}", failover)
}

// made makes a container on a node that may have just come back, once it takes one.
func (s *two) made(t *testing.T, w sdk.Worker, id string) sdk.ContainerID {
	t.Helper()
	ctx := testkit.Context(t)
	if err := settled(ctx, func() error { return w.CreateContainer(ctx, spec(id), nil) }); err != nil {
		t.Fatal(err)
	}
	goes(t, w, sdk.ContainerID(id))
	return sdk.ContainerID(id)
}

// eachItsOwn has a container on each: they are on the nodes that they were asked for, and nowhere else.
func (s *two) eachItsOwn(t *testing.T) {
	unchanged(t, s.server)
	for i, w := range s.w {
		id := makeContainer(t, w, fmt.Sprintf("on-%d", i))
		if _, exit, err := run(testkit.Context(t), w, id, sh("p", "true")); err != nil || exit.Code != 0 {
			t.Fatalf("exit %+v, error %v", exit, err)
		}
		allocs, _, err := s.server.Client().Nodes().Allocations(s.nodes[i].NodeID(), new(api.QueryOptions).WithContext(testkit.Context(t)))
		if err != nil || !slices.ContainsFunc(allocs, func(a *api.Allocation) bool { return strings.HasSuffix(a.JobID, string(id)) }) {
			t.Fatalf("node %d does not have container %s; error %v", i, id, err)
		}
	}
	for i, w := range s.w {
		var listed []string
		if err := w.ListContainers(testkit.Context(t), sdk.Filter{}, func(c sdk.ContainerInfo) error { listed = append(listed, string(c.ID)); return nil }); err != nil {
			t.Fatal(err)
		}
		if len(listed) != 1 || listed[0] != fmt.Sprintf("on-%d", i) {
			t.Errorf("node %d lists %q", i, listed)
		}
		if _, err := w.ListProcesses(testkit.Context(t), sdk.ContainerID(fmt.Sprintf("on-%d", 1-i))); !sdk.IsNotFound(err, sdk.KindContainer) {
			t.Errorf("the other's container: %v", err)
		}
	}
}

// counting writes lines until a file go is there, then some more, and ends with 6.
const counting = `i=0; while [ ! -e "$0.go" ]; do i=$((i+1)); echo line $i; sleep 0.02; done; for j in 1 2 3; do i=$((i+1)); echo line $i; done; echo of $i; exit 6`

func countingTo(id, file string) sdk.ProcessSpec {
	return sdk.ProcessSpec{ID: sdk.ProcessID(id), Token: "t", Path: "/bin/sh", Args: []string{"-c", counting, file}}
}

// counted fails the test unless the lines are all there, once each.
func counted(t *testing.T, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for i, l := range lines[:len(lines)-1] {
		if l != fmt.Sprintf("line %d", i+1) {
			t.Fatalf("line %d is %q", i+1, l)
		}
	}
	if last := lines[len(lines)-1]; last != fmt.Sprintf("of %d", len(lines)-1) {
		t.Errorf("after %d lines comes %q", len(lines)-1, last)
	}
}

// survives has a process run on the first node while something is done to its agent, and follows it on as a host does: from where it was, as often
// as the worker is away.
func (s *two) survives(t *testing.T, name string, do func(context.Context) error) {
	unchanged(t, s.server)
	ctx := testkit.Context(t)
	w := s.w[0]
	id := s.made(t, w, name)
	file := t.TempDir() + "/count"
	if err := w.StartProcess(ctx, id, countingTo("count", file)); err != nil {
		t.Fatal(err)
	}
	lines := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		select {
		case <-lines:
			err := do(ctx)
			write(t, file+".go", "")
			done <- err
		case <-ctx.Done():
			done <- ctx.Err()
		}
	}()
	var out strings.Builder
	var exit *sdk.Exit
	begun := false
	for exit == nil {
		more, e, err := follow(ctx, w, id, "count", sdk.Position(out.Len()), func(all string) {
			if !begun && strings.Count(all, "\n") > 5 {
				begun = true
				close(lines)
			}
		})
		out.WriteString(more)
		exit = e
		if err != nil && !errors.Is(err, sdk.Unavailable) {
			t.Fatalf("after %d bytes: %v", out.Len(), err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if exit.Code != 6 {
		t.Errorf("exit %+v", exit)
	}
	counted(t, out.String())
	// Started anew, it is not: it ran.
	if err := settled(ctx, func() error { return w.StartProcess(ctx, id, countingTo("count", file)) }); err != nil {
		t.Error(err)
	}
	var ps []sdk.ProcessInfo
	err := settled(ctx, func() (err error) { ps, err = w.ListProcesses(ctx, id); return err })
	if err != nil || len(ps) != 1 || ps[0].Exit == nil || ps[0].Exit.Code != 6 {
		t.Errorf("%+v, %v", ps, err)
	}
}

func (s *two) agentKilled(t *testing.T) {
	s.survives(t, "killed", func(ctx context.Context) error { s.nodes[0].Kill(); return s.nodes[0].Restart(ctx) })
}

func (s *two) agentRestarted(t *testing.T) {
	s.survives(t, "restarted", s.nodes[0].Restart)
}

// placement waits until the plugin knows of a node's condition.
func (s *two) placement(t *testing.T, w sdk.Worker, health sdk.Health, why string) {
	t.Helper()
	shows(t, w, fmt.Sprintf("the worker is %s for %q", health, why), func(s sdk.Status) bool { return s.Health == health && strings.Contains(s.Reason, why) })
}

// ineligible has a node take nothing new. What runs there goes on.
func (s *two) ineligible(t *testing.T) {
	unchanged(t, s.server)
	ctx := testkit.Context(t)
	id := makeContainer(t, s.w[1], "before")
	if _, err := s.server.Client().Nodes().ToggleEligibility(s.nodes[1].NodeID(), false, nil); err != nil {
		t.Fatal(err)
	}
	s.placement(t, s.w[1], sdk.Degraded, "ineligible")
	says(t, s.w[1].CreateContainer(ctx, spec("late"), nil), sdk.Exhausted, "", "ineligible")
	if _, exit, err := run(ctx, s.w[1], id, sh("p", "exit 2")); err != nil || exit.Code != 2 {
		t.Errorf("exit %+v, error %v", exit, err)
	}
	s.made(t, s.w[0], "elsewhere")
	if _, err := s.server.Client().Nodes().ToggleEligibility(s.nodes[1].NodeID(), true, nil); err != nil {
		t.Fatal(err)
	}
	s.placement(t, s.w[1], sdk.Healthy, "")
	makeContainer(t, s.w[1], "again")
}

// drain begins or ends one, with a deadline as Nomad has it: negative means at once.
func (s *two) drain(t *testing.T, node *nomadtest.Agent, deadline time.Duration, on bool) {
	t.Helper()
	var d *api.DrainSpec
	if on {
		d = &api.DrainSpec{Deadline: deadline}
	}
	if _, err := s.server.Client().Nodes().UpdateDrain(node.NodeID(), d, !on, new(api.WriteOptions).WithContext(testkit.Context(t))); err != nil {
		t.Fatal(err)
	}
}

// drained lets what runs end, as Nomad does with batch jobs until the drain's deadline.
func (s *two) drained(t *testing.T) {
	unchanged(t, s.server)
	ctx := testkit.Context(t)
	id := makeContainer(t, s.w[1], "step")
	file := t.TempDir() + "/count"
	if err := s.w[1].StartProcess(ctx, id, countingTo("count", file)); err != nil {
		t.Fatal(err)
	}
	s.drain(t, s.nodes[1], time.Hour, true)
	s.placement(t, s.w[1], sdk.Degraded, "draining")
	says(t, s.w[1].CreateContainer(ctx, spec("late"), nil), sdk.Exhausted, "", "draining")
	write(t, file+".go", "")
	out, exit, err := follow(ctx, s.w[1], id, "count", 0, nil)
	if err != nil || exit.Code != 6 {
		t.Fatalf("exit %+v, error %v", exit, err)
	}
	counted(t, out)
	s.drain(t, s.nodes[1], 0, false)
	s.placement(t, s.w[1], sdk.Healthy, "")
}

// drainedByForce kills what runs. That is never an exit; and when the node is back, nothing of it begins anew.
func (s *two) drainedByForce(t *testing.T) {
	unchanged(t, s.server)
	ctx := testkit.Context(t)
	w := s.w[1]
	id := makeContainer(t, w, "cut")
	if err := w.StartProcess(ctx, id, sh("p", "echo begun; exec sleep 1000")); err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	ended := make(chan error, 1)
	var exit *sdk.Exit
	go func() {
		for {
			_, e, err := follow(ctx, w, id, "p", 0, func(string) {
				select {
				case <-begun:
				default:
					close(begun)
				}
			})
			if exit = e; errors.Is(err, sdk.Unavailable) {
				continue
			}
			ended <- err
			return
		}
	}()
	<-begun
	s.drain(t, s.nodes[1], -1, true)
	select {
	case err := <-ended:
		if exit == nil {
			says(t, err, sdk.FailedPrecondition, "", string(id))
		} else if exit.Signal != sdk.KILL { // its keeper may have outlived it for a moment
			t.Errorf("exit %+v of a process that was killed with its container", exit)
		}
	case <-ctx.Done():
		t.Fatal("whoever follows a process that is gone is not told")
	}
	s.gone(t, w, id)
	s.drain(t, s.nodes[1], 0, false)
	s.placement(t, w, sdk.Healthy, "")
	makeContainer(t, w, "proof") // whatever waited for the node has had its turn
	s.gone(t, w, id)
	if held := holdings(ctx, t, s.server); slices.ContainsFunc(held, func(h string) bool { return strings.HasPrefix(h, "allocation ") && strings.HasSuffix(h, string(id)) }) {
		t.Errorf("it runs again: %q", held)
	}
	err := w.StartProcess(ctx, id, sh("p", "echo begun; exec sleep 1000"))
	says(t, err, sdk.FailedPrecondition, sdk.ReasonDead)
	err = w.StartProcess(ctx, id, sh("q", "true"))
	says(t, err, sdk.FailedPrecondition, sdk.ReasonDead)
}

// gone waits until a container is listed as gone, with Nomad's words.
func (s *two) gone(t *testing.T, w sdk.Worker, id sdk.ContainerID) {
	t.Helper()
	ctx := testkit.Context(t)
	var last sdk.ContainerInfo
	testkit.Until(t, fmt.Sprintf("container %s is listed as gone", id), func() bool {
		var err error
		if last, err = listed(ctx, w, id); err != nil {
			t.Fatal(err)
		}
		return last.State == sdk.ContainerGone
	})
	if last.Reason == "" {
		t.Error("nobody says why it is gone")
	}
}
