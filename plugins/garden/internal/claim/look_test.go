//go:build linux

package claim

import (
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// TestManyLookOnce has many ask at a time for what is in a sealed volume of which nothing is known, as after a plugin's restart: it is read once for all of them.
func TestManyLookOnce(t *testing.T) {
	const many = 8
	b := serve(t, gardentest.Options{})
	id := string(b.sealed(dir("d"), symlink("l", "d")))
	b.s.memo.drop(id)
	var whole atomic.Int32
	under := b.s.http.Transport
	b.s.http.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/stream-out") && r.URL.Query().Get("path") == "" && whole.Add(1) == 1 {
			for whole.Load() == 1 && b.s.looks.users(id) < many && b.ctx.Err() == nil {
				runtime.Gosched()
			}
		}
		return under.RoundTrip(r)
	})
	ends := make(chan error, many)
	for range many {
		go func() {
			is, err := b.s.IsDir(b.ctx, id, "d")
			if err == nil && !is {
				t.Error("it is no directory")
			}
			ends <- err
		}()
	}
	for range many {
		b.ok(<-ends)
	}
	if n := whole.Load(); n != 1 {
		t.Errorf("the volume was read %d times", n)
	}
	b.s.http.Transport = under
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// users tells how many hold a name or wait for it.
func (l *locks) users(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.names[name]; n != nil {
		return n.users
	}
	return 0
}
