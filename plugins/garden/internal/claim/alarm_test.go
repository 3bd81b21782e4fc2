//go:build linux

package claim

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// alarms are those of a store's streams. They never go off.
type alarms struct {
	mu    sync.Mutex
	armed map[*silentAlarm]struct{}
	count int           // how many there ever were
	fewer chan struct{} // closed, and made anew, whenever one is stopped
}

type silentAlarm struct{ all *alarms }

func newAlarms() *alarms {
	return &alarms{armed: make(map[*silentAlarm]struct{}), fewer: make(chan struct{})}
}

// set is a Store's alarm.
func (a *alarms) set(time.Duration, func()) alarm {
	one := &silentAlarm{a}
	one.Reset(0)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count++
	return one
}

func (s *silentAlarm) Reset(time.Duration) bool {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	_, was := s.all.armed[s]
	s.all.armed[s] = struct{}{}
	return was
}

func (s *silentAlarm) Stop() bool {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	_, was := s.all.armed[s]
	delete(s.all.armed, s)
	close(s.all.fewer)
	s.all.fewer = make(chan struct{})
	return was
}

// quiet waits until none would go off.
func (a *alarms) quiet(ctx context.Context) error {
	for {
		a.mu.Lock()
		n, fewer := len(a.armed), a.fewer
		a.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-fewer:
		case <-ctx.Done():
			return fmt.Errorf("%d alarms are set: %w", n, ctx.Err())
		}
	}
}

// TestAnswerBeforeTheEnd has a server that answers as soon as it has heard what is asked, and resets the connection: its answer is what
// counts, not that it reads no more.
func TestAnswerBeforeTheEnd(t *testing.T) {
	b := bench{T: t, ctx: testkit.Context(t)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	b.ok(err)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer l.Close()
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.CopyN(io.Discard, r.Body, 100_000)
			}
			fmt.Fprint(c, "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"error\":\"full\"}")
			_ = c.(*net.TCPConn).SetLinger(0) // an error means that it has gone
			c.Close()
		}
	})
	s := storeOf(t, "http://"+l.Addr().String())
	data := []byte(random(8 << 20))
	for range 10 {
		ctx, dog := s.watch(b.ctx)
		sendCtx, unwatch := whenBroken(ctx, func() {})
		err := s.send(sendCtx, dog, "x", "", sdk.EncodingRaw, bytes.NewReader(data))
		unwatch()
		dog.end()
		if !errors.Is(err, errBadStream) {
			t.Fatalf("the answer was lost: %v", err)
		}
	}
}
