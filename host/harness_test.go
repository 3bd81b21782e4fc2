package host

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory"
	"github.com/slipway-run/slipway/sdk"
)

// testTiming has what is missing believed within a test. No worker is gone or stalled because this machine stands still for a while: tests of
// that say how soon.
var testTiming = config.Timing{MissingGrace: 300 * time.Millisecond, WorkerGone: time.Hour, Stalled: time.Hour}

// testConfig names one plugin with workers. Its host reaps only when a test says so.
func testConfig(workers ...string) *config.Config {
	c := &config.Config{Plugins: []config.Plugin{{Name: "memory", Command: "slipway-memory"}}, Timing: testTiming, Reaping: config.Reaping{Every: time.Hour}}
	for _, w := range workers {
		c.Workers = append(c.Workers, config.Worker{Name: w, Plugin: "memory"})
	}
	return c
}

// newMemory is a memory runtime inside the test.
func newMemory(t testing.TB, workers ...string) *memory.Runtime {
	t.Helper()
	rt := memory.New(workers, memory.Options{})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(t))
		defer cancel()
		if err := rt.Close(ctx); err != nil {
			t.Errorf("close memory: %v", err)
		}
	})
	return rt
}

// openHost opens a host on a runtime inside the test, and waits until it is ready.
func openHost(t testing.TB, rt sdk.Runtime, opts Options, workers ...string) *Host {
	t.Helper()
	if rt != nil {
		opts.Runtimes = map[string]sdk.Runtime{"memory": rt}
	}
	return openConfig(t, testConfig(workers...), opts)
}

func openConfig(t testing.TB, cfg *config.Config, opts Options) *Host {
	t.Helper()
	if opts.StateDir == "" {
		opts.StateDir = newStateDir(t)
	}
	opts.manual = true
	if testing.Verbose() {
		opts.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	h, err := Open(t.Context(), cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTestHost(t, h) })
	if err := h.Ready(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	return h
}

// newStateDir is a state directory of which no host has been opened yet, but whose database has its tables. What it keeps in reserve is a hole: to write it took a fifth of the time of
// a short history.
func newStateDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	database, err := emptyDatabase()
	if err == nil {
		reserve := filepath.Join(dir, "reserve")
		err = errors.Join(os.WriteFile(filepath.Join(dir, "slipway.db"), database, 0o600), os.WriteFile(reserve, nil, 0o600), os.Truncate(reserve, 4<<20))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// emptyDatabase is a store's database in which nothing has happened, and which is no installation yet. It is made once: under the race
// detector, making its tables took a quarter of this package's processor time.
var emptyDatabase = sync.OnceValues(func() (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "slipway-store")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	s, err := store.Open(context.Background(), dir, store.Options{})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "slipway.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return nil, err
	}
	_, err = db.Exec("DELETE FROM installation")
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

func closeTestHost(t testing.TB, h *Host) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(t))
	defer cancel()
	if err := h.Close(ctx); err != nil {
		t.Errorf("close host: %v", err)
	}
}

// script runs a shell script as an owner's main process.
func script(t testing.TB, h *Host, owner, text string) *Process {
	t.Helper()
	p, err := tryScript(t, h, owner, text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func tryScript(t testing.TB, h *Host, owner, text string) (*Process, error) {
	t.Helper()
	c, err := h.Container(t.Context(), owner, ContainerRequest{})
	if err != nil {
		return nil, err
	}
	return c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", text}})
}

// waitOutcome waits for the end of a process.
func waitOutcome(t testing.TB, p *Process) Outcome {
	t.Helper()
	o, err := p.Wait(testkit.Context(t))
	if err != nil {
		t.Fatalf("process %s has not ended: %v", p.ID(), err)
	}
	return o
}

// output reads all that is stored of an ended process: the bytes of both streams, and the gaps as "<gap from-to>".
func output(t testing.TB, p *Process) string {
	t.Helper()
	out, err := readAll(testkit.Context(t), p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func readAll(ctx context.Context, p *Process) (string, error) {
	r, err := p.Output(ctx, 0)
	if err != nil {
		return "", err
	}
	defer r.Close()
	var b strings.Builder
	for {
		rec, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			return b.String(), err
		}
		if rec.GapTo > 0 {
			b.WriteString("<gap>")
		}
		b.Write(rec.Data)
	}
}
