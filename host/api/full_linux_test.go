package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory"
	"github.com/slipway-run/slipway/sdk"
)

// lines is a log in memory.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// TestFullDisk: a full disk is seen by whoever watches the daemon and told to whoever asks it for something new, and all is well once there is room.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		testkit.Lacking(t, "root, to mount a small tmpfs")
	}
	dir := place(t)
	state := filepath.Join(dir, "state")
	must(t, os.Mkdir(state, 0o700))
	if err := syscall.Mount("tmpfs", state, "tmpfs", 0, "size=16777216,mode=0700"); err != nil {
		testkit.Lacking(t, "the right to mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(state, 0)) })
	rt, log := memory.New([]string{"m"}, memory.Options{}), &lines{}
	t.Cleanup(func() { must(t, rt.Close(context.Background())) })
	s := serveLogged(t, dir, rt, config.Limits{}, slog.New(slog.NewTextHandler(log, nil)))
	ctx := testkit.Context(t)
	must(t, s.server.h.Ready(ctx))
	hc := s.http()
	ask := func(method, path string, body []byte) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
		must(t, err)
		answer, err := hc.Do(r)
		must(t, err)
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		must(t, err)
		return answer.StatusCode, string(b)
	}
	ensure := func(owner string) error {
		_, err := s.containers.EnsureContainer(ctx, connect.NewRequest(&pb.EnsureContainerRequest{Owner: owner}))
		return err
	}
	wants := func(full bool) {
		t.Helper()
		status, gauge := http.StatusOK, "0"
		if full {
			status, gauge = http.StatusServiceUnavailable, "1"
		}
		if got, text := ask("GET", "/readyz", nil); got != status || full && !strings.Contains(text, "make room on it") {
			t.Errorf("/readyz: %d %s", got, text)
		}
		if got, text := ask("GET", "/healthz", nil); got != http.StatusOK {
			t.Errorf("/healthz: %d %s", got, text)
		}
		_, text := ask("GET", "/metrics", nil)
		for _, line := range []string{"slipway_store_full " + gauge, "slipway_store_free_bytes [0-9].*", "slipway_store_reserve_bytes [0-9].*", `slipway_runs\{state="stopped"\} 0`} {
			if !regexp.MustCompile("(?m)^" + line + "$").MatchString(text) {
				t.Errorf("the metrics have no %s", line)
			}
		}
	}
	must(t, ensure("before"))
	wants(false)
	for round := range 2 {
		other := filepath.Join(state, "other")
		f, err := os.Create(other)
		must(t, err)
		for block := make([]byte, 64<<10); ; {
			if _, err := f.Write(block); err != nil {
				break
			}
		}
		must(t, f.Close())
		wants(true) // before anybody has asked for anything

		status, text := ask("PUT", "/v1alpha1/artifacts/a", archive(t, "file", strings.Repeat("content\n", 1000)))
		if status != http.StatusTooManyRequests || !strings.Contains(text, "resource_exhausted") || !strings.Contains(text, "make room on it") {
			t.Errorf("an upload: %d %s", status, text)
		}
		for n := 0; err == nil; n++ { // what the log of the database has room for yet
			err = ensure(fmt.Sprintf("while-%d-%d", round, n))
		}
		told := answered(ctx, "", err)
		if e, ok := errors.AsType[*Error](told); connect.CodeOf(err) != connect.CodeResourceExhausted || !ok || e.What != WhatDiskFull ||
			!errors.Is(told, sdk.Exhausted) || !errors.Is(told, sdk.ReasonStorage) || !strings.Contains(told.Error(), "make room on it") {
			t.Errorf("a container: %v, %#v", err, told)
		}
		wants(true)
		must(t, os.Remove(other))
		testkit.Until(t, "there is room again", func() bool { // the reserve is made again once a second
			status, _ := ask("GET", "/readyz", nil)
			return status == http.StatusOK
		})
		wants(false)
		must(t, ensure(fmt.Sprint("after-", round)))
		for what, want := range map[string]int{"level=WARN msg=\"the disk of the state directory is full": round + 1, "has room again": round + 1} {
			if n := log.count(what); n != want {
				t.Errorf("%q is told %d times, want %d", what, n, want)
			}
		}
	}
	if status, text := ask("PUT", "/v1alpha1/artifacts/a", archive(t, "file", "content\n")); status != http.StatusCreated {
		t.Errorf("an upload after that: %d %s", status, text)
	}
}
