package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
)

// TestStepShares: what a step shares is there, the same for all, cannot be written, and is no copy of the step's; and a step says how long its caches are kept.
func TestStepShares(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	out := filepath.Join(t.TempDir(), "out")
	res, err := h.Run(testkit.Context(t), RunRequest{Inputs: map[string]string{"certs": tree(t, map[string]string{"ca.pem": "trust"})}, Outputs: map[string]string{"o": out},
		Job: parseJob(t, `
job "j" {
  input "certs" {}
  step "make" {
    outputs = ["tools"]
    run {
      path = "sh"
      args = ["-c", "echo tool > tools/t"]
    }
  }
  step "use" {
    shared    = { "/etc/ssl/certs" = input.certs, tools = step.make.tools }
    caches    = ["c"]
    cache_ttl = "48h"
    outputs   = ["o"]
    run {
      path = "sh"
      args = ["-c", "cat /etc/ssl/certs/ca.pem tools/t > o/f; echo x > /etc/ssl/certs/new && echo written >> o/f; echo x > c/f"]
    }
  }
  step "default" {
    caches = ["c"]
    run {
      path = "sh"
      args = ["-c", "echo x > c/f"]
    }
  }
  output "o" { from = step.use.o }
}`)})
	if err != nil || !res.Succeeded() {
		t.Fatalf("%v, %v", states(res), err)
	}
	if got, err := os.ReadFile(filepath.Join(out, "f")); err != nil || string(got) != "trusttool\n" {
		t.Errorf("it read %q, %v", got, err)
	}
	ttls := make(map[string]time.Duration)
	if err := h.store.View(t.Context(), func(tx *store.Tx) error {
		rows, err := tx.Artifacts(store.ArtifactFilter{})
		for _, row := range rows {
			if row.Key != "" {
				ttls[strings.Split(row.Source, "/")[2]] = row.TTL
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(ttls) != 2 || ttls["use"] != 48*time.Hour || ttls["default"] != DefaultCacheTTL {
		t.Errorf("caches are kept for %v", ttls)
	}
}
