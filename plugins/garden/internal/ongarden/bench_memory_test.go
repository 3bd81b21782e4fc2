//go:build linux

package ongarden

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// BenchmarkMemory tells what the plugin's process keeps resident: idle, with 200 containers in each of which a process runs that is followed, and at its
// peak when eight volumes more stream in and eight out.
func BenchmarkMemory(b *testing.B) {
	const containers, each = 200, 8
	for b.Loop() {
		ctx := b.Context()
		servers := gardentest.Start(b, manyContainers())
		h := openHost(b, gardenConfig(b, worker{name: "here", garden: settings(b, servers)}))
		pid := h.Plugins()[0].PID
		b.ReportMetric(resident(b, pid, "VmRSS"), "MiB-idle")

		out, err := h.AddDir(ctx, "out", "bench", randomDir(b, 256<<20))
		check(b, err)
		source, err := h.Container(ctx, "source", host.ContainerRequest{Inputs: []host.Input{{Artifact: out, Path: "in"}}})
		check(b, err)
		var g errgroup.Group
		g.SetLimit(16)
		made := make([]*host.Container, containers)
		for i := range made {
			g.Go(func() (err error) {
				if made[i], err = h.Container(ctx, fmt.Sprintf("bench/%d", i), host.ContainerRequest{}); err != nil {
					return err
				}
				_, err = made[i].Start(ctx, host.MainProcess, host.ProcessRequest{Path: "sleep", Args: []string{"3600"}})
				return err
			})
		}
		check(b, g.Wait())
		b.ReportMetric(resident(b, pid, "VmRSS"), "MiB-containers")

		check(b, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)) // the peak begins anew
		var streams errgroup.Group
		for i := range each {
			dir := randomDir(b, 64<<20)
			streams.Go(func() error { return h.Download(ctx, out, io.Discard) })
			streams.Go(func() error {
				in, err := h.AddDir(ctx, fmt.Sprintf("in-%d", i), "bench", dir)
				if err != nil {
					return err
				}
				return step(ctx, h, fmt.Sprintf("in/%d", i), host.ContainerRequest{Inputs: []host.Input{{Artifact: in, Path: "in"}}}, host.ProcessRequest{Path: "true"})
			})
		}
		check(b, streams.Wait())
		b.ReportMetric(resident(b, pid, "VmHWM"), "MiB-streams")
		b.StopTimer()
		var gone errgroup.Group
		gone.SetLimit(16)
		for _, c := range append(made, source) {
			gone.Go(func() error { return c.Destroy(context.WithoutCancel(ctx)) })
		}
		check(b, gone.Wait())
		b.StartTimer()
	}
}

// resident reads what a process has in memory, in MiB, or had at most.
func resident(t testing.TB, pid int, field string) float64 {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	check(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, text, ok := strings.Cut(lines.Text(), ":"); ok && name == field {
			kib, err := strconv.ParseFloat(strings.Fields(text)[0], 64)
			check(t, err)
			return kib / 1024
		}
	}
	t.Fatalf("process %d has no %s", pid, field)
	return 0
}
