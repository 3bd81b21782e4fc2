package host

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/sdk"
)

// benchHost opens a host with one real plugin process and workers on it.
func benchHost(b *testing.B, workers ...string) *Host {
	b.Helper()
	cfg := testConfig(workers...)
	cfg.Plugins[0].Command = memoryPlugin(b)
	return openConfig(b, cfg, Options{})
}

// BenchmarkStep measures a whole step through the plugin process: choose, create, start "true", follow to its exit, destroy; with every
// change durable, and with a state directory that nobody reads after the host. "x-floor" is how much longer it takes than the same
// four calls made on the same connections without a host; "x-bare" than four calls that do nothing.
func BenchmarkStep(b *testing.B) {
	b.Run("durable", func(b *testing.B) { benchStep(b, benchHost(b, "m")) })
	b.Run("temporary", func(b *testing.B) {
		cfg := testConfig("m")
		cfg.Plugins[0].Command = memoryPlugin(b)
		h, err := Open(b.Context(), cfg, Options{manual: true})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { closeTestHost(b, h) })
		if err := h.Ready(b.Context()); err != nil {
			b.Fatal(err)
		}
		benchStep(b, h)
	})
}

func benchStep(b *testing.B, h *Host) {
	w, err := h.worker("m")
	if err != nil {
		b.Fatal(err)
	}
	conn, err := w.acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	step := func() {
		n++
		c, err := h.Container(b.Context(), fmt.Sprintf("bench/%d", n), ContainerRequest{})
		if err != nil {
			b.Fatal(err)
		}
		p, err := c.Start(b.Context(), MainProcess, ProcessRequest{Path: "true"})
		if err != nil {
			b.Fatal(err)
		}
		if o := waitOutcome(b, p); o.Exit == nil || o.Exit.Code != 0 {
			b.Fatal(say(o))
		}
		if err := c.Destroy(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	floor := func() {
		n++
		id := sdk.ContainerID(fmt.Sprintf("floor-%d", n))
		bareStep(b, conn, id)
	}
	bare := func() {
		for range 4 {
			if _, err := conn.Status(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	compare(b, step, map[string]func(){"x-floor": floor, "x-bare": bare})
}

// bareStep makes a step's four calls.
func bareStep(b *testing.B, conn sdk.Worker, id sdk.ContainerID) {
	ctx := b.Context()
	if err := conn.CreateContainer(ctx, sdk.ContainerSpec{ID: id, Token: "t"}, nil); err != nil {
		b.Fatal(err)
	}
	if err := conn.StartProcess(ctx, id, sdk.ProcessSpec{ID: "p", Token: "t", Path: "true"}); err != nil {
		b.Fatal(err)
	}
	exited := false
	if err := conn.FollowProcess(ctx, id, "p", 0, sdk.Follow{Exit: func(sdk.Exit) error { exited = true; return nil }}); err != nil || !exited {
		b.Fatal(exited, err)
	}
	if err := conn.DestroyContainer(ctx, id); err != nil {
		b.Fatal(err)
	}
}

// compare times f against floors, in turns, so that what else the machine does falls on all of them alike, and reports the
// ratios.
func compare(b *testing.B, f func(), floors map[string]func()) {
	f()
	spent := make(map[string]time.Duration)
	for _, floor := range floors {
		floor()
	}
	var own time.Duration
	for b.Loop() {
		began := time.Now()
		f()
		own += time.Since(began)
		b.StopTimer()
		for name, floor := range floors {
			began := time.Now()
			floor()
			spent[name] += time.Since(began)
		}
		b.StartTimer()
	}
	for name, t := range spent {
		b.ReportMetric(float64(own)/float64(t), name)
	}
}

// BenchmarkParallelSteps runs a job of 1,000 independent steps on one plugin process.
func BenchmarkParallelSteps(b *testing.B) {
	const steps = 1000
	h := benchHost(b, "m")
	j := &job.Job{Name: "wide"}
	for i := range steps {
		j.Steps = append(j.Steps, job.Step{Name: fmt.Sprintf("s%d", i), Run: job.Run{Path: "true"}})
	}
	for b.Loop() {
		res, err := h.Run(b.Context(), RunRequest{Job: j})
		if err != nil || !res.Succeeded() {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(steps*b.N)/b.Elapsed().Seconds(), "steps/s")
}

// BenchmarkVolumeToVolume streams a volume of 128 MiB out of one plugin process into another, through the host. "of-floor" is its
// speed as a share of that of the same bytes through plain unix sockets and the same number of processes, with a checksum
// at both ends.
func BenchmarkVolumeToVolume(b *testing.B) {
	const size = 128 << 20
	plugin := memoryPlugin(b)
	cfg, diags := config.Parse(fmt.Appendf(nil, `
plugin "one" { command = %[1]q }
plugin "two" { command = %[1]q }
worker "a" { plugin = "one" }
worker "b" { plugin = "two" }
`, plugin), "bench.hcl")
	if diags.HasErrors() {
		b.Fatal(diags)
	}
	h := openConfig(b, cfg, Options{})
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "data"), []byte(strings.Repeat("0123456789abcdef", size/16)), 0o644); err != nil {
		b.Fatal(err)
	}
	a, err := h.AddDir(b.Context(), "data", "bench", dir)
	if err != nil {
		b.Fatal(err)
	}
	from, err := h.worker("a")
	if err != nil {
		b.Fatal(err)
	}
	to, err := h.worker("b")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := h.replicate(b.Context(), a, from, nil); err != nil {
		b.Fatal(err)
	}
	sources, err := h.sources(b.Context(), a)
	if err != nil {
		b.Fatal(err)
	}
	far := newRelayFloor(b, size)
	b.SetBytes(size)
	var own, floor time.Duration
	for b.Loop() {
		b.StopTimer()
		copied, err := h.findOrAddArtifact(b.Context(), newID("copy"), "bench", "")
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		began := time.Now()
		r, err := h.streamFrom(b.Context(), copied, sources[0], to, func() {}, nil)
		if err != nil {
			b.Fatal(err)
		}
		own += time.Since(began)
		b.StopTimer()
		began = time.Now()
		far.run(b)
		floor += time.Since(began)
		rows, err := h.volume(b.Context(), string(r.volume))
		if err == nil {
			err = h.destroyVolume(b.Context(), rows)
		}
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(floor)/float64(own), "of-floor")
}

// relayEnv makes this test binary an end of the floor: "write SOCKET BYTES" or "read SOCKET BYTES", once for each connection.
const relayEnv = "SLIPWAY_TEST_RELAY"

// relayFloor is what any host has to do at least: take bytes from one process, give them to another, with checksums at the
// ends.
type relayFloor struct{ writer, reader net.Listener }

func newRelayFloor(b *testing.B, size int64) *relayFloor {
	b.Helper()
	dir, err := os.MkdirTemp("", "sr")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	f := &relayFloor{}
	for name, lis := range map[string]*net.Listener{"write": &f.writer, "read": &f.reader} {
		socket := filepath.Join(dir, name)
		if *lis, err = net.Listen("unix", socket); err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", relayEnv, name, socket, size))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			cancel()
			(*lis).Close()
			_ = cmd.Wait() // it was killed
		})
	}
	return f
}

func (f *relayFloor) run(b *testing.B) {
	in, err := f.writer.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	out, err := f.reader.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	// A plain copy through memory: splicing in the kernel would leave the host nothing to check.
	if _, err := io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, make([]byte, 256<<10)); err != nil {
		b.Fatal(err)
	}
	if err := out.(*net.UnixConn).CloseWrite(); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil { // the far end has all of it
		b.Fatal(err)
	}
}

// runRelay is the main of an end of the floor.
func runRelay(text string) int {
	words := strings.Fields(text)
	size, err := strconv.ParseInt(words[2], 10, 64)
	buf := []byte(strings.Repeat("0123456789abcdef", 16<<10))
	for err == nil {
		var c net.Conn
		if c, err = net.Dial("unix", words[1]); err != nil {
			break
		}
		sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
		if words[0] == "write" {
			for left := size; left > 0 && err == nil; left -= int64(len(buf)) {
				sum.Write(buf)
				_, err = c.Write(buf)
			}
		} else if _, err = io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{c}, buf); err == nil {
			_, err = c.Write([]byte{1})
		}
		c.Close()
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
