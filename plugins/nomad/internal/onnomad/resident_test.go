//go:build linux

package onnomad

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// BenchmarkResident is how much memory the plugin's program takes: when nothing is there, with containers that have each run a command and stay, and while half as
// many processes as those are followed in five more. Connections are the program's to the agent, then.
func BenchmarkResident(b *testing.B) {
	for _, n := range []int{20, 200} {
		b.Run(fmt.Sprintf("containers-%d", n), func(b *testing.B) {
			for b.Loop() {
				a := nomadtest.Start(b, nomadtest.Options{Dev: true, MaxConnsPerClient: 100, GCMaxAllocs: 500})
				w, pid := programOn(b, a)
				healthy(b, w)
				b.ReportMetric(resident(b, pid), "MiB-idle")
				var making errgroup.Group
				for i := range n {
					making.Go(func() error {
						id := sdk.ContainerID(fmt.Sprintf("stays-%d", i))
						if err := w.CreateContainer(b.Context(), spec(string(id)), nil); err != nil {
							return err
						}
						_, exit, err := run(b.Context(), w, id, sh("p", "exit 3"))
						if err != nil || exit.Code != 3 {
							return fmt.Errorf("%s: exit %+v: %w", id, exit, err)
						}
						return nil
					})
				}
				if err := making.Wait(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(resident(b, pid), "MiB-containers")
				b.ReportMetric(float64(manyProcesses(b, a, w, 5, n/10, 8)), "connections")
				b.ReportMetric(resident(b, pid), "MiB-followed")
			}
		})
	}
}

// programOn runs the plugin's program as a host does, on an agent, until the benchmark's end.
func programOn(b *testing.B, a *nomadtest.Agent) (sdk.Worker, int) {
	b.Helper()
	if err := testkit.Build(program("slipway-nomad"), "github.com/slipway-run/slipway/plugins/nomad/cmd"); err != nil {
		b.Fatal(err)
	}
	block, err := json.Marshal(settings(a, nomadtest.RawExec))
	if err != nil {
		b.Fatal(err)
	}
	plugin := launch.Start(launch.Spec{Name: "nomad", Command: program("slipway-nomad"), Configure: func(context.Context, sdk.PluginInfo) (sdk.Block, []sdk.Block, error) {
		return sdk.Block{Name: "nomad"}, []sdk.Block{{Name: "pool", Values: block}}, nil
	}}, launch.Options{StartTimeout: testkit.Bound(b), ConfigureTimeout: testkit.Bound(b), HealthMisses: 1000, Logger: slog.New(slog.DiscardHandler)})
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(b))
		defer cancel()
		plugin.Stop(ctx)
	})
	session, err := plugin.Session(testkit.Context(b))
	if err != nil {
		b.Fatal(err)
	}
	return workerOn(b, session.Runtime, a), plugin.State().PID
}

// resident is the memory of a process, in MiB.
func resident(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib / 1024
		}
	}
	b.Fatalf("the system does not tell how much memory process %d has", pid)
	return 0
}
