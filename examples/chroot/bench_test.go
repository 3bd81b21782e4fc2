//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/machine"
)

// bench is a worker with this plugin's functions, in this process, and short ways to use it.
type bench struct {
	*machine.Worker
	t *testing.T
}

// theShim builds the program for containers once for all tests.
func theShim(t *testing.T) string {
	t.Helper()
	shim.Do(func() {
		dir, err := os.MkdirTemp("", "chroot")
		if err != nil {
			t.Fatal(err)
		}
		shim.path = filepath.Join(dir, "slipway-shim")
		build(t, shim.path, "sdk/shim/cmd")
	})
	return shim.path
}

// shim is what theShim has built. It is removed when all tests have ended.
var shim struct {
	sync.Once
	path string
}

func newBench(t *testing.T, state string) bench {
	t.Helper()
	w, err := openWorker(t.Context(), state, theShim(t), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	rt := machine.NewRuntime(map[string]*machine.Worker{"here": w})
	t.Cleanup(func() {
		b := bench{w, t}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for id := range b.list(ctx) {
			if err := w.DestroyContainer(ctx, id); err != nil {
				t.Error(err)
			}
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return bench{w, t}
}

func openWorker(ctx context.Context, state, shim string, log *slog.Logger) (*machine.Worker, error) {
	f, o, err := open("here", settings{State: state, Shim: shim})
	if err != nil {
		return nil, err
	}
	o.Log = log
	return machine.Open(ctx, "here", f, o)
}

func (b bench) list(ctx context.Context) map[sdk.ContainerID]sdk.ContainerInfo {
	b.t.Helper()
	all := make(map[sdk.ContainerID]sdk.ContainerInfo)
	if err := b.ListContainers(ctx, sdk.Filter{}, func(i sdk.ContainerInfo) error { all[i.ID] = i; return nil }); err != nil {
		b.t.Error(err)
	}
	return all
}

func (b bench) create(id sdk.ContainerID, change func(*sdk.ContainerSpec)) {
	b.t.Helper()
	spec := sdk.ContainerSpec{ID: id, Token: sdk.NewToken()}
	if change != nil {
		change(&spec)
	}
	if err := b.CreateContainer(b.t.Context(), spec, nil); err != nil {
		b.t.Fatal(err)
	}
}

func (b bench) start(container sdk.ContainerID, id sdk.ProcessID, script string) {
	b.t.Helper()
	spec := sdk.ProcessSpec{ID: id, Token: sdk.NewToken(), Path: "/bin/sh", Args: []string{"-c", script}}
	if err := b.StartProcess(b.t.Context(), container, spec); err != nil {
		b.t.Fatal(err)
	}
}

// journal is what a follower gets.
type journal struct {
	opened int
	out    string
	exit   sdk.Exit
}

// follow follows from the beginning; seen is called with all that has come, each time that something comes.
func (b bench) follow(container sdk.ContainerID, id sdk.ProcessID, seen func(string)) (journal, error) {
	return b.followFrom(0, container, id, seen)
}

func (b bench) followFrom(from sdk.Position, container sdk.ContainerID, id sdk.ProcessID, seen func(string)) (j journal, err error) {
	err = b.FollowProcess(b.t.Context(), container, id, from, sdk.Follow{
		Opened: func(sdk.Opened) error { j.opened++; return nil },
		Output: func(records []sdk.Record) error {
			for _, r := range records {
				j.out += string(r.Data)
			}
			if seen != nil {
				seen(j.out)
			}
			return nil
		},
		Exit: func(e sdk.Exit) error { j.exit = e; return nil },
	})
	return j, err
}

// run runs a script to its exit.
func (b bench) run(container sdk.ContainerID, script string) string {
	b.t.Helper()
	id := sdk.ProcessID(strings.ToLower(string(sdk.NewToken())))
	b.start(container, id, script)
	j, err := b.follow(container, id, nil)
	if err != nil {
		b.t.Errorf("%s: %v", script, err)
	}
	return j.out
}

// volume makes a sealed volume of what file and link give.
func (b bench) volume(id sdk.VolumeID, entries ...*tar.Header) sdk.VolumeID {
	b.t.Helper()
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	for _, h := range entries {
		text := h.Uname // of no other use here
		h.Uname, h.Size, h.Mode = "", int64(len(text)), 0o755
		if err := tw.WriteHeader(h); err != nil {
			b.t.Fatal(err)
		}
		if _, err := io.WriteString(tw, text); err != nil {
			b.t.Fatal(err)
		}
	}
	ctx := b.t.Context()
	err := errors.Join(tw.Close(), b.CreateVolume(ctx, sdk.VolumeSpec{ID: id, Token: sdk.NewToken()}), b.StreamIn(ctx, id, sdk.StreamIn{}, &archive))
	if err = errors.Join(err, b.SealVolume(ctx, id)); err != nil {
		b.t.Fatal(err)
	}
	return id
}

func file(name, text string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Uname: text}
}

func link(name, target string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}
