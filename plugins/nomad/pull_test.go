//go:build linux

package nomad

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// testPull has a container wait for its image, for one plugin that makes it and one that goes on with that: whoever follows a process there is told that it is
// half made, and nobody is cut off.
func testPull(t *testing.T, a *nomadtest.Agent) {
	ctx := testkit.Context(t)
	asked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/v2/" {
			return
		}
		once.Do(func() { close(asked) })
		select {
		case <-release:
		case <-q.Context().Done():
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer registry.Close()
	let := sync.OnceFunc(func() { close(release) })
	defer let()
	_, first := open(t, a, onDocker(a), nil)
	_, second := open(t, a, onDocker(a), nil)
	able(ctx, t, first)
	able(ctx, t, second)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(registry.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	spec := sdk.ContainerSpec{ID: "pulled", Token: "t", Image: sdk.Image{Ref: "127.0.0.1:" + port + "/slow:1"}}
	made := make(chan error, 2)
	make1 := func(n *node) {
		told := make(chan struct{})
		var once sync.Once
		go func() {
			made <- n.CreateContainer(ctx, spec, func(p sdk.Progress) {
				if p.Phase == "pulling" {
					once.Do(func() { close(told) })
				}
			})
		}()
		select {
		case <-told:
		case err := <-made:
			t.Fatalf("it is over while its image is pulled: %v", err)
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
		if err := n.FollowProcess(ctx, "pulled", "p", 0, sdk.Follow{}); !errors.Is(err, sdk.ReasonCreating) {
			t.Errorf("%v, want it to be creating", err)
		}
	}
	make1(first)
	<-asked
	make1(second)
	let()
	for range 2 {
		if err := <-made; err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without an image: %v", err)
		}
	}
	if err := first.DestroyContainer(ctx, "pulled"); err != nil {
		t.Error(err)
	}
}

// able waits until it is known what a node can do.
func able(ctx context.Context, t *testing.T, n *node) {
	t.Helper()
	shows(ctx, t, n, "it is known what the node can do", func(s sdk.Status) bool { return s.Has(sdk.FeatureImageRef) && s.Health == sdk.Healthy })
}
