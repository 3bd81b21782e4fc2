//go:build linux

package onnomad

import (
	"bufio"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// TestMany makes more containers at once than an agent takes connections from one address, and follows more processes than that through a few.
func TestMany(t *testing.T) {
	testkit.Soak(t, "two hundred containers")
	a := nomadtest.Start(t, nomadtest.Options{Dev: true, MaxConnsPerClient: 20})
	c := settings(a, nomadtest.RawExec)
	c.MaxConnections = 16
	w := workerOn(t, open(t, c), a)
	manyContainers(t, a, w, 24)
	if n := manyProcesses(t, a, w, 3, 34, 8); n > 8 {
		t.Errorf("102 processes are followed over %d connections", n)
	}
	c.MaxConnections = 4
	moreThanTurns(t, workerOn(t, open(t, c), a))
}

// moreThanTurns has more containers than the two that commands get into at once. What is kept open for later gives way; who comes too late waits.
func moreThanTurns(t *testing.T, w sdk.Worker) {
	ctx := testkit.Context(t)
	file := t.TempDir() + "/go"
	healthy(t, w) // then the look at what the node can is over, which needs a turn
	var ids []sdk.ContainerID
	for i := range 4 {
		id := makeContainer(t, w, fmt.Sprintf("turn-%d", i))
		if err := w.StartProcess(ctx, id, sh("p", "echo here; while [ ! -e "+file+" ]; do sleep 0.1; done; exit 5")); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	var g errgroup.Group
	begun := make(chan struct{}, len(ids))
	for _, id := range ids {
		g.Go(func() error {
			var once sync.Once
			_, exit, err := follow(ctx, w, id, "p", 0, func(string) { once.Do(func() { begun <- struct{}{} }) })
			if err != nil || exit.Code != 5 {
				return fmt.Errorf("%s: exit %+v: %w", id, exit, err)
			}
			return nil
		})
	}
	for range 2 {
		select {
		case <-begun:
		case <-ctx.Done():
			t.Fatal("not even two are followed")
		}
	}
	if s, err := w.Status(ctx); err != nil || s.Health == sdk.Away || s.Capacity.Containers != 2 {
		t.Errorf("while all turns are taken: %+v, %v", s, err)
	}
	write(t, file, "")
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// manyContainers makes them all at once, runs a command in each, and destroys them.
func manyContainers(t testing.TB, a *nomadtest.Agent, w sdk.Worker, n int) {
	t.Helper()
	before := holdings(t.Context(), t, a)
	ctx := testkit.Context(t)
	var g errgroup.Group // none ends another
	for i := range n {
		g.Go(func() error {
			id := sdk.ContainerID(fmt.Sprintf("many-%d", i))
			if err := w.CreateContainer(ctx, spec(string(id)), nil); err != nil {
				return fmt.Errorf("create %s: %w", id, err)
			}
			_, exit, err := run(ctx, w, id, sh("p", fmt.Sprintf("exit %d", i%100)))
			if err != nil || exit.Code != i%100 {
				return fmt.Errorf("%s: exit %+v: %w", id, exit, err)
			}
			if err := w.DestroyContainer(ctx, id); err != nil {
				return fmt.Errorf("destroy %s: %w", id, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if after := holdings(t.Context(), t, a); len(after) != len(before) {
		t.Errorf("left in the cluster: %q", after)
	}
}

// manyProcesses follows so many processes in each of so many containers at once, and gives how many connections there are then, once those of before have
// ended: at most so many, where they do.
func manyProcesses(t testing.TB, a *nomadtest.Agent, w sdk.Worker, containers, each, most int) int {
	t.Helper()
	ctx := testkit.Context(t)
	// All of them read a pipe until nobody has it open for writing any more.
	pipe := t.TempDir() + "/pipe"
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	hold, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	var writing sync.WaitGroup // until all have written something
	var g errgroup.Group
	for i := range containers {
		id := makeContainer(t, w, fmt.Sprintf("crowd-%d", i))
		for j := range each {
			p := sh(fmt.Sprintf("p%d", j), fmt.Sprintf("exec 3<%s; echo %d; read go <&3 || true; echo end", pipe, j))
			writing.Add(1)
			g.Go(func() error {
				var once sync.Once
				defer once.Do(writing.Done)
				if err := w.StartProcess(ctx, id, p); err != nil {
					return err
				}
				out, exit, err := follow(ctx, w, id, p.ID, 0, func(string) { once.Do(writing.Done) })
				if want := fmt.Sprintf("%d\nend\n", j); err != nil || exit.Code != 0 || out != want {
					return fmt.Errorf("%s in %s: exit %+v, output %q: %w", p.ID, id, exit, out, err)
				}
				return nil
			})
		}
	}
	writing.Wait()
	a.Client().Close() // the test's own are not counted
	n := 0
	testkit.Until(t, fmt.Sprintf("there are at most %d connections", most), func() bool {
		n = connections(t, a)
		return n <= most
	})
	if err := hold.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	return n
}

// connections counts those that this machine has to an agent's API.
func connections(t testing.TB, a *nomadtest.Agent) int {
	t.Helper()
	u, err := url.Parse(a.Address())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		const established = "01"
		if len(fields) > 3 && strings.HasSuffix(fields[2], fmt.Sprintf(":%04X", port)) && fields[3] == established {
			n++
		}
	}
	return n
}
