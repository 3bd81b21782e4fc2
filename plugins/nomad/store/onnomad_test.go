//go:build linux

package store

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// onNomad runs commands of the program in an allocation, until they are cut off.
type onNomad struct {
	agent *nomadtest.Agent
	alloc *api.Allocation

	mu   sync.Mutex
	cuts []context.CancelFunc
}

func (n *onNomad) exec(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.mu.Lock()
	n.cuts = append(n.cuts, cancel)
	n.mu.Unlock()
	// Should the task's environment not be there, the test's program must not take itself for a test.
	argv = append([]string{"/usr/bin/env", asProgram + "=1", "GORACE=atexit_sleep_ms=0", os.Args[0]}, argv[1:]...)
	_, err := n.agent.Exec(ctx, n.alloc, nomadtest.TaskName, argv, stdin, stdout, stderr)
	return err
}

func (n *onNomad) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, cancel := range n.cuts {
		cancel()
	}
}

func (n *onNomad) store(t *testing.T) *storenet.Store {
	t.Helper()
	s, err := storenet.New(storenet.Options{Node: "n1", Exec: n.exec, Program: "slipway-store"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestOnNomad talks to a store through Nomad's own exec alone. What it holds for somebody whose exec breaks off, it gives back.
func TestOnNomad(t *testing.T) {
	testkit.Soak(t, "an agent of its own")
	agent := nomadtest.Start(t, nomadtest.Options{Dev: true})
	alloc, err := agent.Run(testkit.Context(t), nomadtest.Task{
		Command: os.Args[0], Env: map[string]string{asProgram: "1", "GORACE": "atexit_sleep_ms=0"}, MemoryMB: 256,
		Args: []string{"serve", "--dir", t.TempDir(), "--listen", "127.0.0.1:0", "--advertise", "127.0.0.1:1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	a, b := &onNomad{agent: agent, alloc: alloc}, &onNomad{agent: agent, alloc: alloc}
	first, second := a.store(t), b.store(t)
	testkit.Until(t, "the store answers", func() bool {
		_, err := first.Status(testkit.Context(t))
		return err == nil
	})
	big := strings.Repeat("0123456789\x00\r\n\xff\x04\x1b", 128<<10)
	create(t, first, "v", big)
	if got := content(t, first, "v"); got != big {
		t.Errorf("%d of %d bytes came back, or others", len(got), len(big))
	}
	lease, err := first.Share(testkit.Context(t), "v")
	if err != nil {
		t.Fatal(err)
	}
	if !held(t, second, "v") {
		t.Error("the volume could be sealed under a lease")
	}
	a.cut() // as if the plugin were killed
	seal(t, second, "v")
	if err := lease.Release(); err == nil {
		t.Error("a lease that was cut off counts as held")
	}
	if state := volumes(t, first)["v"].State; state != sdk.VolumeSealed { // by a new command
		t.Errorf("the volume is %v", state)
	}
}
