//go:build linux

package ongarden

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// openHost opens a host in this process, and waits until its workers are there.
func openHost(t testing.TB, cfg *config.Config) *host.Host {
	t.Helper()
	h := beginHost(t, cfg)
	testkit.Until(t, "all workers are up", func() bool { // a machine that is busy is slower than a host waits for a first status
		return !slices.ContainsFunc(h.Workers(), func(w host.WorkerReport) bool { return !w.Up })
	})
	return h
}

// beginHost opens one, and waits until it has looked at its workers.
func beginHost(t testing.TB, cfg *config.Config) *host.Host {
	t.Helper()
	return beginHostOn(t, cfg, filepath.Join(t.TempDir(), "state"))
}

// beginHostOn is beginHost on a state directory.
func beginHostOn(t testing.TB, cfg *config.Config, state string) *host.Host {
	t.Helper()
	opts := host.Options{StateDir: state}
	if testing.Verbose() {
		opts.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	h, err := host.Open(t.Context(), cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(t))
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Errorf("close the host: %v", err)
		}
	})
	if err := h.Ready(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	return h
}

// worker is a worker on Garden.
type worker struct {
	name   string
	garden garden.Config
}

// gardenConfig names the plugin and workers on it.
func gardenConfig(t testing.TB, workers ...worker) *config.Config {
	t.Helper()
	c, diags := config.Parse([]byte(gardenHCL(workers...)), "slipway.hcl")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return c
}

// gardenHCL is the text of such a configuration.
func gardenHCL(workers ...worker) string {
	var text strings.Builder
	text.WriteString("plugin \"garden\" { command = \"slipway-garden\" }\n")
	for _, w := range workers {
		fmt.Fprintf(&text, "worker %q {\n  plugin = \"garden\"\n  config {\n", w.name)
		for name, value := range map[string]string{
			"garden": w.garden.Garden, "baggageclaim": w.garden.Baggageclaim, "rootfs": w.garden.Rootfs, "architecture": w.garden.Architecture,
			"peer_zone": w.garden.PeerZone, "peers": w.garden.Peers,
		} {
			if value != "" {
				fmt.Fprintf(&text, "    %s = %q\n", name, value)
			}
		}
		text.WriteString("  }\n}\n")
	}
	return text.String()
}

// step makes a container, runs a command in it that is to exit with 0, and destroys it.
func step(ctx context.Context, h *host.Host, owner string, req host.ContainerRequest, run host.ProcessRequest) error {
	c, err := h.Container(ctx, owner, req)
	if err != nil {
		return err
	}
	p, err := c.Start(ctx, host.MainProcess, run)
	if err != nil {
		return err
	}
	o, err := p.Wait(ctx)
	if err != nil {
		return err
	}
	if o.Exit == nil || o.Exit.Code != 0 {
		return fmt.Errorf("it ended with %+v, %w", o.Exit, o.Err)
	}
	return c.Destroy(ctx)
}

func loadConfig(t testing.TB, file string) *config.Config {
	t.Helper()
	c, diags := config.Load(file)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return c
}

func loadJob(t testing.TB, file string) *job.Job {
	t.Helper()
	j, diags := job.Load(file)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return j
}

// nothingLeft fails the test if a run left containers or volumes; what the plugin keeps for all of them may stay, and what the test put there.
func nothingLeft(t testing.TB, s *gardentest.Servers) {
	t.Helper()
	left := s.Containers(t)
	for _, v := range s.Volumes(t) {
		if !strings.HasPrefix(v, "slipway.") && v != busyboxVolume {
			left = append(left, v)
		}
	}
	if len(left) > 0 {
		t.Errorf("left on the servers: %q", left)
	}
}

func readFile(t testing.TB, elem ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
