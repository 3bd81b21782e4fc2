package rpc_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
	"github.com/slipway-run/slipway/sdk/rpc/internal/testruntime"
)

// nowhere is the name of an address that nobody can dial.
type nowhere struct{}

func (nowhere) Network() string { return "none" }
func (nowhere) String() string  { return "a place behind something" }

// TestDialer connects by the caller's own means, at first and after a loss.
func TestDialer(t *testing.T) {
	lis := listen(t)
	life, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- rpc.ServeOn(life, lis, sdk.PluginInfo{}, testruntime.New("w"), rpc.ServeOptions{}) }()
	defer func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()

	var mu sync.Mutex
	var conns []net.Conn
	shut := true
	c, err := rpc.Dial(t.Context(), nowhere{}, rpc.DialOptions{Dialer: func(ctx context.Context) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if by, ok := ctx.Deadline(); !ok || time.Until(by) > time.Minute {
			t.Errorf("the dialer has until %v, %v", by, ok)
		}
		if shut {
			return nil, errors.New("the door is shut")
		}
		conn, err := net.Dial("unix", lis.Addr().String())
		conns = append(conns, conn)
		return conn, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()

	err = c.Health(t.Context())
	if e, ok := errors.AsType[*sdk.Error](err); !ok || e.Reason != sdk.ReasonPluginGone || e.Cause == nil || !strings.Contains(e.Cause.Error(), "the door is shut") {
		t.Errorf("with the dialer failing: %v", err)
	}
	mu.Lock()
	shut = false
	mu.Unlock()
	untilHealthy(t, c)

	mu.Lock()
	if len(conns) != 1 {
		t.Errorf("one connection is used, %d were made", len(conns))
	}
	conns[0].Close()
	mu.Unlock()
	untilHealthy(t, c)
	mu.Lock()
	defer mu.Unlock()
	if len(conns) != 2 {
		t.Errorf("one connection was lost and %d were made", len(conns))
	}
}

// untilHealthy waits until calls work: some fail until gRPC has noticed a loss, and until it tries again.
func untilHealthy(t *testing.T, c *rpc.Client) {
	t.Helper()
	ctx := testkit.Context(t)
	testkit.Until(t, "calls work", func() bool {
		err := c.Health(ctx)
		if err != nil && !errors.Is(err, sdk.Unavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
}
