//go:build linux

package host

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
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

// BenchmarkControl measures what has nothing to do with streams while eight of them, which the host relays from a plugin to slow readers, keep half of the
// processors busy: a call of the plugin's, and a container that the host has made and destroyed. "of-cpu" is how much of the machine all of that takes;
// "p99-ms" and "p50-ms" are with the streams, and "x-quiet" is how much longer the median is than without.
func BenchmarkControl(b *testing.B) {
	h := benchHost(b, "m")
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "data"), bytes.Repeat([]byte("0123456789abcdef"), 2<<20), 0o644); err != nil {
		b.Fatal(err)
	}
	a, err := h.AddDir(b.Context(), "data", "bench", dir)
	if err != nil {
		b.Fatal(err)
	}
	w, err := h.worker("m")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := h.replicate(b.Context(), a, w, nil); err != nil {
		b.Fatal(err)
	}
	h.mu.Lock()
	delete(h.local, a.ID) // so that it is read from the worker
	h.mu.Unlock()
	conn, err := w.acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for _, control := range []struct {
		name string
		call func() error
	}{
		{"call", func() error {
			_, err := conn.Status(b.Context())
			return err
		}},
		{"container", func() error {
			n++
			c, err := h.Container(b.Context(), fmt.Sprint("control/", n), ContainerRequest{})
			if err != nil {
				return err
			}
			return c.Destroy(b.Context())
		}},
	} {
		b.Run(control.name, func(b *testing.B) {
			timed := func() time.Duration {
				began := time.Now()
				if err := control.call(); err != nil {
					b.Fatal(err)
				}
				return time.Since(began)
			}
			var quiet, took []time.Duration
			for range 300 {
				quiet = append(quiet, timed())
			}
			end := slowReaders(b, h, a)
			busy, all := processorTime(b)
			for b.Loop() {
				took = append(took, timed())
			}
			busyNow, allNow := processorTime(b)
			end()
			b.ReportMetric(float64(busyNow-busy)/float64(max(1, allNow-all)), "of-cpu")
			slices.Sort(quiet)
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)/2])/float64(quiet[len(quiet)/2]), "x-quiet")
		})
	}
}

// slowReaders has eight readers download an artifact again and again, each with no more than 16 MiB/s, until the end is called.
func slowReaders(b *testing.B, h *Host, a *Artifact) (end func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			reader := &paced{ctx: ctx, rate: 16 << 20}
			for ctx.Err() == nil {
				if err := h.Download(ctx, a, reader); err != nil && ctx.Err() == nil {
					return err
				}
			}
			return nil
		})
	}
	return func() {
		b.Helper()
		cancel()
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
	}
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

// processorTime is for how long the machine's processors have been busy, and for how long there have been any, in the kernel's ticks.
func processorTime(b *testing.B) (busy, all int64) {
	b.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		b.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(first)[1:9] { // what guests take is in user and nice, too
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		if all += n; i != 3 && i != 4 { // idle, and waiting for a disk
			busy += n
		}
	}
	return busy, all
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
