//go:build linux

package onnomad

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// box is a container, and short ways to use it.
type box struct {
	*worker
	t  testing.TB
	id sdk.ContainerID
}

// newBox makes a container on a worker of its own. Both are taken away at the test's end.
func newBox(t testing.TB, c config) *box {
	t.Helper()
	w, err := newWorker(c, shim.Options{HelloTimeout: dialLimit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.end(); err != nil {
			t.Error(err)
		}
	})
	return (&box{worker: w, t: t}).another()
}

// another makes one more on the same worker, under an id that no test on the agent has.
func (b *box) another() *box {
	b.t.Helper()
	id := sdk.ContainerID("box-" + strings.ToLower(rand.Text()))
	n := &box{worker: b.worker, t: b.t, id: id}
	n.check(n.CreateContainer(b.t.Context(), sdk.ContainerSpec{ID: id, Token: sdk.NewToken()}, nil))
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(b.t))
		defer cancel()
		if err := n.DestroyContainer(ctx, id); err != nil {
			b.t.Error(err)
		}
	})
	return n
}

func (b *box) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// result is what a process said and how it ended.
type result struct {
	stdout string
	next   sdk.Position
	exit   *sdk.Exit
	wrong  bool // a record was doubled, or is missing
}

func (r *result) follow() sdk.Follow {
	return sdk.Follow{
		Output: func(records []sdk.Record) error {
			for _, rec := range records {
				r.wrong = r.wrong || rec.Position != r.next || rec.IsGap() || r.exit != nil
				r.next = rec.End()
				r.stdout += string(rec.Data)
			}
			return nil
		},
		Exit: func(e sdk.Exit) error { r.wrong, r.exit = r.wrong || r.exit != nil, &e; return nil },
	}
}

// sh is a script with $0 and further arguments.
func sh(script string, args ...string) sdk.ProcessSpec {
	return sdk.ProcessSpec{Path: "/bin/sh", Args: append([]string{"-c", script}, args...)}
}

// start starts a process under an id of its own.
func (b *box) start(spec sdk.ProcessSpec) sdk.ProcessID {
	b.t.Helper()
	spec.ID, spec.Token = sdk.ProcessID("p-"+strings.ToLower(rand.Text())), sdk.NewToken()
	b.check(b.StartProcess(b.t.Context(), b.id, spec))
	return spec.ID
}

func (b *box) run(spec sdk.ProcessSpec) result {
	b.t.Helper()
	var r result
	b.check(b.FollowProcess(b.t.Context(), b.id, b.start(spec), 0, r.follow()))
	return r
}
