package host

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// The configuration says how much is kept and for how long, unless the program does.
func TestKeptAsConfigured(t *testing.T) {
	t.Parallel()
	cfg := testConfig("m")
	cfg.Artifacts = config.Artifacts{Quota: 64 << 10, TTL: time.Hour, CacheTTL: 2 * time.Hour}
	rt := newMemory(t, "m")
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": rt}})
	_, err := h.UploadFiles(t.Context(), Upload{Name: "big"}, stream.File{Name: "f", Data: make([]byte, 64<<10)})
	if !errors.Is(err, sdk.ReasonTooLarge) || !strings.Contains(err.Error(), "raise quota in the configuration's artifacts block") {
		t.Errorf("more than the quota: %v", err)
	}
	small := *cfg
	small.Artifacts.Upload = 32 << 10
	one := openConfig(t, &small, Options{Runtimes: map[string]sdk.Runtime{"memory": rt}})
	_, err = one.UploadFiles(t.Context(), Upload{Name: "big"}, stream.File{Name: "f", Data: make([]byte, 32<<10)})
	if !errors.Is(err, sdk.ReasonTooLarge) || !strings.Contains(err.Error(), "32768 bytes") || !strings.Contains(err.Error(), "raise upload_size in the configuration's artifacts block") {
		t.Errorf("more than one may have: %v", err)
	}
	kept := func(h *Host, name string) time.Duration {
		var row store.Artifact
		if err := h.store.View(t.Context(), func(tx *store.Tx) (err error) { row, err = tx.ArtifactByName(name); return err }); err != nil {
			t.Fatal(err)
		}
		if d := row.ExpiresAt.Sub(row.CreatedAt); d != row.TTL {
			t.Errorf("%s goes after %s, and is to after %s", name, d, row.TTL)
		}
		return row.TTL
	}
	for name, c := range map[string]struct{ asked, want time.Duration }{"default": {0, time.Hour}, "asked": {time.Minute, time.Minute}} {
		if _, err := h.UploadFiles(t.Context(), Upload{Name: name, TTL: c.asked}, stream.File{Name: "f"}); err != nil {
			t.Fatal(err)
		}
		if d := kept(h, name); d != c.want {
			t.Errorf("%s: it is kept for %s", name, d)
		}
	}
	if _, err := h.AddDir(t.Context(), "dir", "", t.TempDir()); err != nil || kept(h, "dir") != time.Hour {
		t.Errorf("a directory is kept for %s, %v", kept(h, "dir"), err)
	}
	if d := h.cacheTTL(); d != 2*time.Hour {
		t.Errorf("a cache is kept for %s", d)
	}
	own := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": rt}, CacheTTL: time.Minute, Blobs: BlobLimits{Total: 1 << 20}})
	if _, err := own.UploadFiles(t.Context(), Upload{Name: "big"}, stream.File{Name: "f", Data: make([]byte, 64<<10)}); err != nil {
		t.Errorf("within the program's own limit: %v", err)
	}
	if d := own.cacheTTL(); d != time.Minute {
		t.Errorf("a cache of the program's is kept for %s", d)
	}
}
