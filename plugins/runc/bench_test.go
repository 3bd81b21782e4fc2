//go:build linux

package runc

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/machine"
)

// bench is a worker and short ways to use it.
type bench struct {
	t *testing.T
	w *machine.Worker
	c Config
	n int
}

func newBench(t *testing.T, c Config) *bench {
	t.Helper()
	_, w, c := newRuntime(t, c)
	return &bench{t: t, w: w, c: c}
}

func (b *bench) create(id string, change func(*sdk.ContainerSpec)) sdk.ContainerSpec {
	b.t.Helper()
	spec := sdk.ContainerSpec{ID: sdk.ContainerID(id), Token: sdk.NewToken()}
	if change != nil {
		change(&spec)
	}
	if err := b.w.CreateContainer(b.t.Context(), spec, nil); err != nil {
		b.t.Fatal(err)
	}
	return spec
}

// start starts a script, under an id of its own.
func (b *bench) start(container, script string, change func(*sdk.ProcessSpec)) sdk.ProcessID {
	b.t.Helper()
	b.n++
	spec := sdk.ProcessSpec{ID: sdk.ProcessID("p" + strings.Repeat("x", b.n)), Token: sdk.NewToken(), Path: "sh", Args: []string{"-c", script}}
	if change != nil {
		change(&spec)
	}
	if err := b.w.StartProcess(b.t.Context(), sdk.ContainerID(container), spec); err != nil {
		b.t.Fatal(err)
	}
	return spec.ID
}

// run runs a script to its exit.
func (b *bench) run(container, script string, change func(*sdk.ProcessSpec)) (string, sdk.Exit) {
	b.t.Helper()
	return b.follow(container, b.start(container, script, change))
}

func (b *bench) follow(container string, id sdk.ProcessID) (string, sdk.Exit) {
	b.t.Helper()
	var out bytes.Buffer
	var exit sdk.Exit
	err := b.w.FollowProcess(b.t.Context(), sdk.ContainerID(container), id, 0, sdk.Follow{
		Output: func(records []sdk.Record) error {
			for _, r := range records {
				out.Write(r.Data)
			}
			return nil
		},
		Exit: func(e sdk.Exit) error { exit = e; return nil },
	})
	if err != nil {
		b.t.Fatalf("%v; so far it wrote %q", err, out.String())
	}
	return out.String(), exit
}

// await follows a process until it has written what is wanted.
func (b *bench) await(container string, id sdk.ProcessID, want string) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	var out string
	err := b.w.FollowProcess(ctx, sdk.ContainerID(container), id, 0, sdk.Follow{
		Opened: func(sdk.Opened) error { return nil },
		Output: func(records []sdk.Record) error {
			for _, r := range records {
				out += string(r.Data)
			}
			if out == want {
				cancel()
			}
			return nil
		},
	})
	if out != want {
		b.t.Fatalf("it wrote %q, want %q; %v", out, want, err)
	}
}

// kill kills a container's process 1 from outside, and gives what is listed of the container then.
func (b *bench) kill(container string) (gone sdk.ContainerInfo) {
	b.t.Helper()
	e, err := engine.New(filepath.Join(b.c.State, "engine"), engine.Options{})
	if err == nil {
		err = e.Kill(b.t.Context(), container, syscall.SIGKILL)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	testkit.Until(b.t, "the container is listed as gone", func() bool {
		err := b.w.ListContainers(b.t.Context(), sdk.Filter{ID: container}, func(i sdk.ContainerInfo) error { gone = i; return nil })
		return err != nil || gone.State == sdk.ContainerGone
	})
	return gone
}

// abandoned follows a process without an exit in a container that has ended.
func (b *bench) abandoned(container string, id sdk.ProcessID, want string) {
	b.t.Helper()
	var out string
	err := b.w.FollowProcess(b.t.Context(), sdk.ContainerID(container), id, 0, sdk.Follow{
		Opened: func(sdk.Opened) error { return nil },
		Output: func(r []sdk.Record) error { out += string(r[0].Data); return nil },
	})
	if !errors.Is(err, sdk.ReasonAbandoned) || out != want {
		b.t.Errorf("following in a container that has ended: %q, %v, want %q", out, err, want)
	}
}

func (b *bench) volume(id string, seal bool, files map[string]string) sdk.VolumeID {
	b.t.Helper()
	ctx, v := b.t.Context(), sdk.VolumeID(id)
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	for name, text := range files {
		h := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}
		if err := errors.Join(tw.WriteHeader(h), func() error { _, err := tw.Write([]byte(text)); return err }()); err != nil {
			b.t.Fatal(err)
		}
	}
	err := errors.Join(tw.Close(), b.w.CreateVolume(ctx, sdk.VolumeSpec{ID: v, Token: sdk.NewToken()}), b.w.StreamIn(ctx, v, sdk.StreamIn{}, &archive))
	if seal {
		err = errors.Join(err, b.w.SealVolume(ctx, v))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}
