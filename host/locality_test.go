package host

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// Locality weighs all that a container is made of: its image and what it shares as well as its inputs, and its caches also where
// it is only asked about.
func TestLocalityWeighsEverything(t *testing.T) {
	t.Parallel()
	cfg := testConfig("a", "b")
	cfg.Placement = config.Placement{Build: []string{"volume-locality"}}
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "a", "b")}})
	files := map[string]string{"rootfs/f": strings.Repeat("x", 100_000)}
	a, err := h.Upload(t.Context(), Upload{Name: "i"}, bytes.NewReader(archiveOf(t, "", files)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.replicate(t.Context(), a, mustWorker(t, h, "b"), nil)
	if err != nil {
		t.Fatal(err)
	}
	key := TaskCacheKey("", "s", "s", "x")
	c, err := h.Container(t.Context(), "maker", ContainerRequest{Caches: []Cache{{Key: key, Path: "x"}}, Exclude: map[string]string{"a": "not there"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "echo hello > x/f"}})
	if err != nil {
		t.Fatal(err)
	}
	waitOutcome(t, p)
	if err := c.SaveCaches(t.Context()); err != nil {
		t.Fatal(err)
	}
	cached := func() (row store.Artifact) {
		err := h.store.View(t.Context(), func(tx *store.Tx) error {
			rows, err := tx.Artifacts(store.ArtifactFilter{Key: key})
			if len(rows) == 1 {
				row = rows[0]
			}
			return err
		})
		if err != nil || row.ID == "" {
			t.Fatalf("the cache is %+v, %v", row, err)
		}
		return row
	}
	kept := cached()
	for what, c := range map[string]struct {
		req  ContainerRequest
		want int64 // 0: more than none
	}{
		"image":  {ContainerRequest{Image: a}, r.bytes},
		"input":  {ContainerRequest{Inputs: []Input{{a, "x"}}}, r.bytes},
		"shared": {ContainerRequest{Shared: []Input{{a, "x"}}}, r.bytes},
		"cache":  {ContainerRequest{Caches: []Cache{{Key: key, Path: "x"}}}, 0},
	} {
		e, err := h.ExplainRequest(t.Context(), c.req)
		if err != nil {
			t.Fatal(err)
		}
		if e.Worker != "b" || len(e.Scores) != 1 || e.Scores[0].Value < 1 || c.want > 0 && e.Scores[0].Value != c.want {
			t.Errorf("%s: explained as %s with %+v, want b with %d bytes", what, e.Worker, e.Scores, c.want)
		}
		if now := cached(); !reflect.DeepEqual(now, kept) {
			t.Errorf("%s: to ask has changed the cache from %+v to %+v", what, kept, now)
		}
		made, err := h.Container(t.Context(), "of/"+what, c.req)
		if err != nil {
			t.Fatal(err)
		}
		if made.Worker() != e.Worker || !reflect.DeepEqual(made.record.Placed.Scores, e.Scores) {
			t.Errorf("%s: placed on %s with %+v, explained as %s with %+v", what, made.Worker(), made.record.Placed.Scores, e.Worker, e.Scores)
		}
		kept = cached()
	}
}
