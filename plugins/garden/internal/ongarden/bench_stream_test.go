//go:build linux

package ongarden

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// twoWorkers are workers "a" and "b", each on servers of its own, taking only steps that ask for the tag of that name. In a zone, peers says who carries.
func twoWorkers(t testing.TB, zone, peers string) (*config.Config, map[string]*gardentest.Servers) {
	t.Helper()
	servers := make(map[string]*gardentest.Servers)
	var workers []worker
	for _, name := range []string{"a", "b"} {
		servers[name] = gardentest.Start(t, gardentest.Options{})
		s := settings(t, servers[name])
		s.PeerZone, s.Peers = zone, peers
		workers = append(workers, worker{name: name, garden: s})
	}
	cfg := gardenConfig(t, workers...)
	for i := range cfg.Workers {
		cfg.Workers[i].Tags = []string{cfg.Workers[i].Name}
	}
	return cfg, servers
}

// randomDir makes a directory with a file of random bytes.
func randomDir(t testing.TB, size int64) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "random"))
	check(t, err)
	_, err = io.CopyN(f, rand.Reader, size)
	check(t, errors.Join(err, f.Close()))
	return dir
}

const gibibyte = 1 << 30

// BenchmarkVolume is a volume with a random file of 1 GiB on its way from one Baggageclaim server to another, through a host and the plugin's program, in
// turns with the same by nothing but the servers' own calls. "ratio" is our time by theirs, of medians:
//
//   - relay: beside one server's stream piped into the other's, in the same encoding
//   - plugin: beside the same, with the plugin's process carrying the bytes and not the host
//   - peers: beside the first server being told to send to the other
//
// "ratio-cpu" is the same of the time on a processor that this process, the plugin and all servers took together: where these share two cores it is what the
// other comes from, and other work on the machine leaves it as it is.
func BenchmarkVolume(b *testing.B) {
	piped := func(ctx context.Context, from, to *direct, src, dst string) error {
		r, err := from.out(ctx, src, "zstd")
		if err != nil {
			return err
		}
		defer r.Close()
		return to.in(ctx, dst, "zstd", r)
	}
	b.Run("relay", func(b *testing.B) { benchVolume(b, "", "", piped) })
	b.Run("plugin", func(b *testing.B) { benchVolume(b, "here", "plugin", piped) })
	b.Run("peers", func(b *testing.B) {
		benchVolume(b, "here", "servers", func(ctx context.Context, from, to *direct, src, dst string) error {
			url, err := to.peerURL(ctx, dst)
			if err != nil {
				return err
			}
			return from.peerSend(ctx, src, "zstd", url)
		})
	})
}

func benchVolume(b *testing.B, zone, peers string, move func(ctx context.Context, from, to *direct, src, dst string) error) {
	ctx := b.Context()
	cfg, servers := twoWorkers(b, zone, peers)
	h := openHost(b, cfg)
	from, to := newDirect(b, servers["a"]), newDirect(b, servers["b"])
	source, err := h.AddDir(ctx, "source", "bench", randomDir(b, gibibyte))
	check(b, err)
	check(b, step(ctx, h, "first", inputOn("a", source, nil), host.ProcessRequest{Path: "true"})) // brings it to a
	src := from.withFile(b, servers["a"], "", "random")

	pids := []int{os.Getpid(), h.Plugins()[0].PID}
	for _, s := range servers {
		pids = append(pids, s.BaggageclaimPID(), s.GardenPID())
	}
	var ours, theirs []time.Duration
	var oursCPU, theirsCPU float64
	for i := 0; b.Loop(); i++ {
		took, cpu, via := moveByHost(b, h, source, i, pids)
		if via != viaOf(zone) {
			b.Fatalf("it went by way of %q", via)
		}
		ours = append(ours, took)
		oursCPU += cpu

		dst := fmt.Sprintf("direct-%d", i)
		_, err := to.volume(ctx, dst, "")
		check(b, err)
		at, before := time.Now(), processorTime(b, pids)
		check(b, move(ctx, from, to, src, dst))
		theirs = append(theirs, time.Since(at))
		theirsCPU += processorTime(b, pids) - before
		check(b, to.destroy(ctx, dst))
	}
	b.ReportMetric(median(ours), "s")
	b.ReportMetric(median(theirs), "s-direct")
	b.ReportMetric(median(ours)/median(theirs), "ratio")
	b.ReportMetric(oursCPU/theirsCPU, "ratio-cpu")
}

// processorTime is what processes, and those of their children that have ended, have had of processors, in ticks.
func processorTime(b *testing.B, pids []int) (ticks float64) {
	b.Helper()
	for _, pid := range pids {
		_, fields, _ := strings.Cut(readFile(b, fmt.Sprintf("/proc/%d/stat", pid)), ") ")
		for _, field := range strings.Fields(fields)[11:15] { // utime, stime, cutime, cstime
			n, err := strconv.ParseFloat(field, 64)
			check(b, err)
			ticks += n
		}
	}
	return ticks
}

// viaOf is the way that volumes take between workers of that zone.
func viaOf(zone string) string {
	if zone == "" {
		return "zstd"
	}
	return host.ViaDirect
}

// inputOn asks for a container on a worker with that artifact.
func inputOn(worker string, a *host.Artifact, observe func(host.Event)) host.ContainerRequest {
	return host.ContainerRequest{Tags: []string{worker}, Inputs: []host.Input{{Artifact: a, Path: "in"}}, Observe: observe}
}

// moveByHost has the host bring a new artifact with the content of source, which is on worker a, to worker b, and gives the time, the processors' time and the way
// that it took.
func moveByHost(b *testing.B, h *host.Host, source *host.Artifact, i int, pids []int) (took time.Duration, cpu float64, via string) {
	b.Helper()
	ctx := b.Context()
	req := inputOn("a", source, nil)
	req.Outputs = []host.Output{{Name: "copy", Path: "in"}} // a copy-on-write one
	c, err := h.Container(ctx, fmt.Sprintf("produce/%d", i), req)
	check(b, err)
	p, err := c.Start(ctx, host.MainProcess, host.ProcessRequest{Path: "true"})
	check(b, err)
	_, err = p.Wait(ctx)
	check(b, err)
	outputs, err := c.Seal(ctx)
	check(b, err)
	produced := outputs["copy"]
	owner, began := fmt.Sprintf("consume/%d", i), 0.0
	check(b, step(ctx, h, owner, inputOn("b", produced, func(e host.Event) {
		switch {
		case e.Kind == host.EventPlaced:
			began = processorTime(b, pids)
		case e.Stream != nil && e.Stream.Done:
			took, cpu, via = e.Stream.Took, processorTime(b, pids)-began, e.Stream.Via
		}
	}), host.ProcessRequest{Path: "test", Args: []string{"-s", "in/random"}}))
	check(b, c.Destroy(ctx))
	check(b, h.RemoveArtifact(ctx, produced))
	return took, cpu, via
}

func median(times []time.Duration) float64 {
	slices.Sort(times)
	return times[len(times)/2].Seconds()
}

// BenchmarkArtifact is the time from the end of a step that wrote a random file of 512 MiB to the start of one on another worker that has it as its input,
// with the defaults of Slipway, beside what Concourse took for the same on a machine of this kind, everything of it on that one machine.
func BenchmarkArtifact(b *testing.B) {
	const job = `
job "move" {
  step "produce" {
    tags    = ["a"]
    outputs = ["out"]
    run {
      path = "dd"
      args = ["if=/dev/urandom", "of=out/random", "bs=1M", "count=512"]
    }
  }
  step "consume" {
    tags   = ["b"]
    inputs = { in = step.produce.out }
    run {
      path = "test"
      args = ["-s", "in/random"]
    }
  }
}
`
	took := make(map[string]float64)
	for _, way := range []struct{ name, zone, peers string }{{"relay", "", ""}, {"plugin", "here", "plugin"}, {"peers", "here", "servers"}} {
		b.Run(way.name, func(b *testing.B) {
			var times []time.Duration
			cfg, _ := twoWorkers(b, way.zone, way.peers)
			h := openHost(b, cfg)
			file := filepath.Join(b.TempDir(), "job.hcl")
			write(b, file, job)
			for b.Loop() {
				events := make(chan host.Event, 1000)
				res, err := h.Run(b.Context(), host.RunRequest{Job: loadJob(b, file), Events: func(e host.Event) { events <- e }})
				check(b, err)
				if !res.Succeeded() {
					b.Fatalf("%+v", res.Steps)
				}
				close(events)
				var produced, started time.Time
				for e := range events {
					switch {
					case e.Step == "produce" && e.Kind == host.EventExited:
						produced = e.Time
					case e.Step == "consume" && e.Kind == host.EventStarted:
						started = e.Time
					}
				}
				times = append(times, started.Sub(produced))
			}
			took[way.name] = median(times)
			b.ReportMetric(took[way.name], "s")
			if len(took) == 3 {
				b.Logf(artifactTable, took["relay"], took["plugin"], took["peers"])
			}
		})
	}
}

const artifactTable = `
a random file of 512 MiB, from the end of its producer to the start of its consumer
Slipway, through the host (zstd, the default)   %5.1f s
Slipway, in one zone, through the plugin        %5.1f s
Slipway, in one zone, servers to each other     %5.1f s
Concourse, through web (gzip, the default)       14.2-18.6 s
Concourse, through web, zstd / raw                3.4-5.4 / 3.3-4.8 s
Concourse, peers, gzip / raw                     13.8-14.1 / 2.6-3.2 s`
