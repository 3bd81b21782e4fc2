//go:build linux

package host

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// BenchmarkIdleContainers measures what the host keeps in memory for a container that nothing happens to: "B/container" of its
// heap, "resident-B/container" of its process. Each iteration makes as many as the goal speaks of.
func BenchmarkIdleContainers(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		h := benchHost(b, "m")
		fillHost(b, h, 1000) // whatever grows once has grown
		heap, resident := footprint(b)
		fillHost(b, h, n)
		heapAfter, residentAfter := footprint(b)
		b.ReportMetric(float64(heapAfter-heap)/n, "B/container")
		b.ReportMetric(float64(residentAfter-resident)/n, "resident-B/container")
		runtime.KeepAlive(h)
	}
}

// BenchmarkReopen opens a state directory with 10,000 containers, and reconciles it with a
// worker that has them all: from Open until the worker takes calls.
func BenchmarkReopen(b *testing.B) {
	const n = 10_000
	plugin := memoryPlugin(b)
	cfg := worldConfig(plugin, benchWorld(b, plugin, "m"), "m")
	dir := b.TempDir()
	open := func() *Host {
		h, err := Open(b.Context(), cfg, Options{StateDir: dir})
		if err == nil {
			err = h.Ready(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
		return h
	}
	h := open()
	fillHost(b, h, n)
	closeTestHost(b, h)
	for b.Loop() {
		h := open()
		b.StopTimer()
		if w, u := h.Workers(), h.index.Usage("m"); len(w) != 1 || u.Build != n {
			b.Fatalf("the host has %+v on %+v", u, w)
		}
		closeTestHost(b, h)
		b.StartTimer()
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/open")
}

// BenchmarkControl measures calls of the host's that need no stream while eight streams keep half of the processors busy.
func BenchmarkControl(b *testing.B) {
	h := benchHost(b, "m")
	w, err := h.worker("m")
	if err != nil {
		b.Fatal(err)
	}
	conn, err := w.acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if err := conn.CreateVolume(b.Context(), sdk.VolumeSpec{ID: "streamed", Token: "t"}); err != nil {
		b.Fatal(err)
	}
	if err := conn.StreamIn(b.Context(), "streamed", sdk.StreamIn{}, bigTar(b, 32<<20)); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	begin := processorTime(b)
	began := time.Now()
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			for ctx.Err() == nil {
				err := conn.StreamOut(ctx, "streamed", sdk.StreamOut{}, &paced{ctx: ctx, rate: 16 << 20})
				if err != nil && ctx.Err() == nil {
					return err
				}
			}
			return nil
		})
	}
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		if _, err := conn.Status(b.Context()); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	b.ReportMetric(float64(processorTime(b)-begin)/float64(time.Since(began))/float64(runtime.NumCPU()), "of-cpu(host)")
	cancel()
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
}

// paced is a reader's end that takes no more than rate bytes a second.
type paced struct {
	ctx  context.Context
	rate int64
	n    int64
	from time.Time
}

func (p *paced) Write(data []byte) (int, error) {
	if p.from.IsZero() {
		p.from = time.Now()
	}
	p.n += int64(len(data))
	ahead := time.Duration(float64(p.n)/float64(p.rate)*float64(time.Second)) - time.Since(p.from)
	if ahead <= 0 {
		return len(data), nil
	}
	select {
	case <-time.After(ahead):
		return len(data), nil
	case <-p.ctx.Done():
		return 0, p.ctx.Err()
	}
}

// bigTar is an archive of one file.
func bigTar(b *testing.B, size int) io.Reader {
	b.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "data", Mode: 0o644, Size: int64(size)})
	if err == nil {
		_, err = w.Write(bytes.Repeat([]byte("0123456789abcdef"), size/16))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		b.Fatal(err)
	}
	return &out
}

// fillHost makes containers until the host has that many, 16 at a time.
func fillHost(b *testing.B, h *Host, n int) {
	b.Helper()
	have := h.index.Usage("m").Build
	g, ctx := errgroup.WithContext(b.Context())
	g.SetLimit(16)
	for i := have; i < n; i++ {
		g.Go(func() error {
			_, err := h.Container(ctx, fmt.Sprintf("idle/%d", i), ContainerRequest{})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
}

// footprint is what this process's heap holds, and what of the process is in memory, both in bytes.
func footprint(b *testing.B) (heap, resident uint64) {
	b.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	var total, pages uint64
	if _, err := fmt.Sscan(string(text), &total, &pages); err != nil {
		b.Fatal(err)
	}
	return m.HeapAlloc, pages * uint64(os.Getpagesize())
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(unix.TimevalToNsec(u.Utime) + unix.TimevalToNsec(u.Stime))
}

// benchWorld starts a memory that is a process of its own, and returns its socket.
func benchWorld(b *testing.B, plugin, worker string) string {
	b.Helper()
	dir, err := os.MkdirTemp("", "sw")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "w.sock")
	cmd := exec.Command(plugin, "world", "--socket", socket, "--worker", worker)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "world at ") {
		b.Fatalf("the world says %q (%v)", line, err)
	}
	return socket
}
