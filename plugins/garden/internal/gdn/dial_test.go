package gdn

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestRetries counts attempts to connect by the waits between them, which are 200 ms and then twice as long each. A server that comes up meanwhile is reached.
func TestRetries(t *testing.T) {
	for name, c := range map[string]struct {
		retries int
		upAfter time.Duration // negative: never
		waited  time.Duration
		reached bool
	}{
		"none":               {0, -1, 0, false},
		"two":                {2, -1, 600 * time.Millisecond, false},
		"up before the last": {2, 300 * time.Millisecond, 600 * time.Millisecond, true},
		"up too late":        {1, 300 * time.Millisecond, 200 * time.Millisecond, false},
		"up at once":         {2, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "s") // a socket's path must be short
			testkit.Bubble(t, func(t testing.TB) {
				s, err := New(Config{Address: "unix://" + at, Retries: c.retries})
				if err != nil {
					t.Fatal(err)
				}
				listen := func() {
					l, err := net.Listen("unix", at)
					if err != nil {
						t.Error(err)
						return
					}
					t.Cleanup(func() { l.Close() })
				}
				began := time.Now()
				if c.upAfter == 0 {
					listen()
				} else if c.upAfter > 0 {
					defer time.AfterFunc(c.upAfter, listen).Stop()
				}
				conn, err := s.dial(testkit.Context(t))
				if waited := time.Since(began); waited != c.waited {
					t.Errorf("it waited for %v in all, want %v", waited, c.waited)
				}
				if (err == nil) != c.reached || err != nil && !errors.Is(err, errDial) {
					t.Errorf("%v; want a connection: %v", err, c.reached)
				}
				if conn != nil {
					conn.Close()
				}
			})
		})
	}
}
