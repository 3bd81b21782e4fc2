//go:build linux

package garden

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// front stands before a Garden server and relays to it, but for requests that a test has it treat otherwise.
type front struct {
	address string // tcp://HOST:PORT
	ctx     context.Context
	work    sync.WaitGroup

	mu        sync.Mutex
	otherwise map[string]treat // by method and path, as "POST /containers"
}

// treat is given a request and where to answer. It tells whether the server shall have it all the same.
type treat func(ctx context.Context, r *http.Request, answer io.Writer) (passOn bool)

// cut answers nothing.
func cut(context.Context, *http.Request, io.Writer) bool { return false }

// hold lets the server have the request once until is closed.
func hold(until <-chan struct{}) treat {
	return func(ctx context.Context, _ *http.Request, _ io.Writer) bool {
		select {
		case <-until:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// refuse answers in Garden's own way that it will not.
func refuse(why string) treat {
	return func(_ context.Context, r *http.Request, answer io.Writer) bool {
		io.Copy(io.Discard, r.Body)
		text := fmt.Sprintf(`{"Type":"","Message":%q,"Handle":"","ProcessID":"","Binary":""}`, why)
		fmt.Fprintf(answer, "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(text), text)
		return false
	}
}

func newFront(t *testing.T, s *gardentest.Servers) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{address: "tcp://" + l.Addr().String(), otherwise: make(map[string]treat)}
	var cancel context.CancelFunc
	f.ctx, cancel = context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); l.Close(); f.work.Wait() })
	to := strings.TrimPrefix(s.Garden, "tcp://")
	f.work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			f.work.Go(func() { f.serve(client, to) })
		}
	})
	return f
}

// set has requests treated in a way from now on, or with nil as all others.
func (f *front) set(request string, t treat) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.otherwise[request] = t
}

// serve serves a connection, which is one request.
func (f *front) serve(client net.Conn, to string) {
	defer client.Close()
	defer context.AfterFunc(f.ctx, func() { client.Close() })()
	var read bytes.Buffer
	r, err := http.ReadRequest(bufio.NewReader(io.TeeReader(client, &read)))
	if err != nil {
		return
	}
	said := bytes.NewReader(bytes.Clone(read.Bytes())) // treat may read on
	f.mu.Lock()
	t := f.otherwise[r.Method+" "+r.URL.Path]
	f.mu.Unlock()
	if t != nil && !t(f.ctx, r, client) {
		return
	}
	server, err := (&net.Dialer{}).DialContext(f.ctx, "tcp", to)
	if err != nil {
		return
	}
	relay(f.ctx, client, io.MultiReader(said, client), server)
}
