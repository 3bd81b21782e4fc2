package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory"
	"github.com/slipway-run/slipway/sdk"
)

// keeping is a runtime whose containers cannot be destroyed.
type keeping struct{ sdk.Runtime }

func (k keeping) Worker(name string) (sdk.Worker, error) {
	w, err := k.Runtime.Worker(name)
	return keepingWorker{w}, err
}

type keepingWorker struct{ sdk.Worker }

func (keepingWorker) DestroyContainer(context.Context, sdk.ContainerID) error {
	return sdk.NewInternal(nil, "it stays")
}

// TestMetrics: what waits for a place, what is still to be destroyed and what went to workers can be watched.
func TestMetrics(t *testing.T) {
	dir, rt := place(t), memory.New([]string{"m"}, memory.Options{})
	s := serveLimited(t, dir, keeping{rt}, config.Limits{Containers: 1})
	t.Cleanup(func() {
		s.stop()
		must(t, rt.Close(context.Background()))
	})
	hc := s.http()
	has := func(line string) bool {
		t.Helper()
		r, err := http.NewRequestWithContext(testkit.Context(t), http.MethodGet, base+"/metrics", nil)
		must(t, err)
		answer, err := hc.Do(r)
		must(t, err)
		defer answer.Body.Close()
		all, err := io.ReadAll(answer.Body)
		must(t, err)
		return regexp.MustCompile("(?m)^" + line + "$").Match(all)
	}
	h, ctx := s.server.h, testkit.Context(t)
	must(t, h.Ready(ctx))
	a, err := h.Upload(ctx, host.Upload{Name: "in"}, bytes.NewReader(archive(t, "file", "text")))
	must(t, err)
	c, err := h.Container(ctx, "first", host.ContainerRequest{Inputs: []host.Input{{Artifact: a, Path: "in"}}})
	must(t, err)

	wctx, leave := context.WithCancel(ctx)
	left := make(chan error)
	go func() {
		_, err := h.Container(wctx, "second", host.ContainerRequest{Team: "blue"})
		left <- err
	}()
	testkit.Until(t, "the second waits", func() bool { return has(`slipway_waiting\{team="blue"\} 1`) })
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the second ends with %v", err)
	}
	if err := c.Destroy(ctx); !errors.Is(err, sdk.Internal) {
		t.Errorf("the first is destroyed: %v", err)
	}
	for _, line := range []string{`slipway_worker_owed\{kind="container",worker="m"\} 1`, `slipway_worker_owed_seconds\{worker="m"\} [0-9].*`,
		`slipway_waiting_longest_seconds 0`, `slipway_streamed_bytes_total\{via="[a-z]+"\} [1-9].*`, `slipway_workers\{health="healthy",plugin="memory",state="running"\} 1`} {
		if !has(line) {
			t.Errorf("the metrics have no %s", line)
		}
	}
}
