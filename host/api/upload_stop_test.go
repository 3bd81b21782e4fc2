package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory"
	"github.com/slipway-run/slipway/sdk"
)

// blobs lists what the host keeps on its disk.
func (s *served) blobs(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.dir, "state", "blobs"))
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// stopHalfway begins an upload that sends half of its archive and then nothing until goOn is called.
func (s *served) stopHalfway(t *testing.T, name string) (goOn func(), ended <-chan error) {
	t.Helper()
	tree, going, out := archive(t, "file", strings.Repeat("content", 10_000)), make(chan struct{}), make(chan error, 1)
	go func() {
		out <- s.Upload(testkit.Context(t), host.Upload{Name: name}, func(ctx context.Context, w io.Writer) error {
			half := len(tree) / 2
			if _, err := w.Write(tree[:half]); err != nil {
				return err
			}
			select {
			case <-going:
			case <-ctx.Done():
			}
			_, err := w.Write(tree[half:])
			return err
		})
	}()
	return func() { close(going) }, out
}

// TestUploadThatStops: what a client sends no further is given up, by either protocol. Nothing of it stays, and the client is told.
func TestUploadThatStops(t *testing.T) {
	timing := config.Default().Timing
	timing.WorkerGone = testkit.Scale(100 * time.Millisecond)
	rt := memory.New([]string{"m"}, memory.Options{})
	t.Cleanup(func() { must(t, rt.Close(context.Background())) })
	s := serveConfig(t, place(t), rt, &config.Config{Plugins: []config.Plugin{{Name: "memory", Command: "none"}},
		Workers: []config.Worker{{Name: "m", Plugin: "memory"}}, Timing: timing}, nil)

	tree := archive(t, "file", strings.Repeat("content", 10_000))
	body, send := io.Pipe()
	go func() { _, _ = send.Write(tree[:len(tree)/2]) }() // and no more
	defer send.Close()
	r, err := http.NewRequestWithContext(testkit.Context(t), http.MethodPut, base+"/v1alpha1/artifacts/plain", body)
	must(t, err)
	answer, err := s.http().Do(r)
	must(t, err)
	text, err := io.ReadAll(answer.Body)
	must(t, errors.Join(err, answer.Body.Close()))
	if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "send it anew") {
		t.Errorf("the plain one: %s, %s", answer.Status, text)
	}

	goOn, ended := s.stopHalfway(t, "call")
	testkit.Until(t, "the call is given up", func() bool {
		answer, err := s.http().Get(base + "/metrics")
		must(t, err)
		text, err := io.ReadAll(answer.Body)
		must(t, errors.Join(err, answer.Body.Close()))
		return strings.Contains(string(text), `slipway_api_calls_total{code="unavailable",procedure="ArtifactService/UploadArtifact"} 1`)
	})
	goOn()
	if err := <-ended; !errors.Is(err, sdk.Unavailable) || !strings.Contains(err.Error(), "send it anew") {
		t.Errorf("the call: %v", err)
	}
	if left := s.blobs(t); len(left) > 0 {
		t.Errorf("there are left %q", left)
	}
}

// TestCloseEndsUploads: a server that ends waits for no client that sends nothing, and tells it so.
func TestCloseEndsUploads(t *testing.T) {
	s := serve(t)
	goOn, ended := s.stopHalfway(t, "stops")
	testkit.Until(t, "it is being written", func() bool { return len(s.blobs(t)) > 0 })
	must(t, s.server.Close(testkit.Context(t)))
	testkit.Until(t, "it has ended", func() bool { return len(s.blobs(t)) == 0 })
	goOn()
	if err := <-ended; what(err) != WhatClosing {
		t.Errorf("its client is told %v", err)
	}
}
