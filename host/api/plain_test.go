package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestPlainNames has artifacts of names that a path may not seem to hold. Each is found under its own.
func TestPlainNames(t *testing.T) {
	s := serve(t)
	hc := s.http()
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(testkit.Context(t), method, base+path, strings.NewReader(body))
		must(t, err)
		answer, err := hc.Do(r)
		must(t, err)
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		must(t, err)
		return answer.StatusCode, string(b)
	}
	for _, name := range []string{"a/b", "a//b", "a/./b", "a/../b", "b", "a#b", "a:b@c"} {
		at := strings.ReplaceAll(name, "#", "%23")
		if status, text := ask("PUT", "/v1alpha1/artifacts/"+at, string(archive(t, "file", "of "+name))); status != http.StatusCreated {
			t.Errorf("%s cannot be put: %d %s", name, status, text)
		}
		if status, text := ask("GET", "/v1alpha1/files/"+at+"?path=file", ""); status != http.StatusOK || text != "of "+name {
			t.Errorf("%s has %d %q", name, status, text)
		}
		if a, err := s.server.artifact(testkit.Context(t), name); err != nil || a.Name != name {
			t.Errorf("%s is %v, %v", name, a, err)
		}
	}
}

// TestPlainGaps reads output of which some was dropped: nobody takes it for whole who has not asked for that.
func TestPlainGaps(t *testing.T) {
	records := []spool.Record{{Stream: uint8(sdk.Stdout), Data: []byte("ab")}, {Stream: uint8(sdk.Stderr), Position: 2, Data: []byte("c")}, {Position: 3, GapTo: 10},
		{Stream: uint8(sdk.Stdout), Position: 10, Data: []byte("d")}}
	read := func(only string, skip bool) (string, error) {
		var b bytes.Buffer
		take := bytesOf(&b, only, skip)
		for _, r := range records {
			if err := take(r); err != nil {
				return b.String(), err
			}
		}
		return b.String(), nil
	}
	for _, c := range []struct {
		only, want string
		skip       bool
	}{{"", "abc", false}, {"stdout", "ab", false}, {"", "abcd", true}, {"stdout", "abd", true}} {
		got, err := read(c.only, c.skip)
		if got != c.want || (err == nil) != c.skip {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
		if e, ok := errors.AsType[*sdk.Error](err); !c.skip && (!ok || e.Reason != sdk.ReasonOutputGap || e.Position != 10 || !strings.Contains(e.Message, "from=10")) {
			t.Errorf("%+v: the gap is %v", c, err)
		}
	}
	s := serve(t)
	r, err := s.http().Get(base + "/v1alpha1/output/me?gaps=keep")
	must(t, err)
	defer r.Body.Close()
	if r.StatusCode != http.StatusBadRequest {
		t.Errorf("gaps=keep is %s", r.Status)
	}
}

// TestUnused leaves a connection unused, and an answer unread. Neither is kept for ever.
func TestUnused(t *testing.T) {
	broken := make(chan error, 1)
	endless := within(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				broken <- err
				return
			}
		}
	}), 10*time.Millisecond)
	mux := http.NewServeMux()
	mux.Handle("/endless", endless)
	mux.HandleFunc("/short", func(http.ResponseWriter, *http.Request) {})
	path := filepath.Join(place(t), "s")
	l, err := Listen(t.Context(), "unix://"+path)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serveIdle(ctx, ctx, l, mux, 10*time.Millisecond) }()
	defer func() { stop(); must(t, <-done) }()
	ask := func(what string) net.Conn {
		t.Helper()
		conn, err := net.Dial("unix", path)
		must(t, err)
		must(t, conn.SetDeadline(time.Now().Add(testkit.Bound(t))))
		_, err = io.WriteString(conn, "GET "+what+" HTTP/1.1\r\nHost: slipway\r\n\r\n")
		must(t, err)
		return conn
	}
	unread := ask("/endless")
	defer unread.Close()
	idle := ask("/short")
	defer idle.Close()
	if text, err := io.ReadAll(idle); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200 ") {
		t.Errorf("the unused connection: %q, %v", text, err)
	}
	select {
	case <-broken:
	case <-testkit.Context(t).Done():
		t.Error("the answer that nobody reads goes on")
	}
}
