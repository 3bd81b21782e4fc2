package host

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestSlowByAMinute: a worker answers each call right, but only a minute later. What is wanted of it is made all the same, and until it has destroyed what it was told to,
// that is told as owed since it was asked for.
func TestSlowByAMinute(t *testing.T) {
	t.Parallel()
	rt, clk := newMemory(t, "m"), newTestClock()
	calls := make(chan chan struct{}) // each is answered once what it has sent is closed
	o := &hooked{Runtime: rt, hook: func(ctx context.Context, call, _ string, _ int, real func() error) error {
		err := real()
		if call == "follow" {
			return err
		}
		answer := make(chan struct{})
		select {
		case calls <- answer:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-answer:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	h := openHost(t, o, Options{clock: clk.clock()}, "m")
	ctx := testkit.Context(t)
	minute := func(what string, do func() error) (asked int) {
		t.Helper()
		ended := make(chan error, 1)
		go func() { ended <- do() }()
		for {
			select {
			case answer := <-calls:
				asked++
				clk.pass(time.Minute)
				close(answer)
			case err := <-ended:
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				return asked
			case <-ctx.Done():
				t.Fatalf("%s: in vain", what)
			}
		}
	}
	var c *Container
	minute("make", func() (err error) {
		c, err = h.Container(ctx, "owner", ContainerRequest{Outputs: []Output{{"o", "o"}}})
		return err
	})
	minute("start", func() error {
		_, err := c.Start(ctx, MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "sleep 1000"}})
		return err
	})
	since := clk.clock().wall()
	destroyed := make(chan error, 1)
	go func() { destroyed <- c.Destroy(ctx) }()
	testkit.Until(t, "both are owed", func() bool { o := h.Workers()[0].Owed; return o.Containers == 1 && o.Volumes == 1 })
	for range 2 { // and still is a minute later
		if owed := h.Workers()[0].Owed; owed.Containers != 1 || owed.Volumes != 1 || !owed.Since.Equal(since) || owed.Why != "" {
			t.Errorf("owed is %+v, want a container and a volume since %v", owed, since)
		}
		clk.pass(time.Minute)
	}
	n := minute("destroy", func() error { return <-destroyed })
	if n != 2 {
		t.Errorf("two things were destroyed in %d calls", n)
	}
	if owed := h.Workers()[0].Owed; !owed.None() {
		t.Errorf("in the end %+v is owed", owed)
	}
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestRebornInMidDestroy: a worker comes back as another one while it is asked to destroy something. That was told as owed, and since when; it is not any more, and who waits for
// it is let go, though the call is not answered yet. However it is answered then, what was told of the process before is true afterwards, and nothing comes back.
func TestRebornInMidDestroy(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"well":        nil,
		"unavailable": sdk.NewUnavailable(nil, "not now"),
		"internal":    sdk.NewInternal(nil, "device or resource busy"),
		"exhausted":   sdk.NewExhausted(sdk.ReasonMemory, "too much to do"),
		"not found":   sdk.NewNotFound(sdk.KindContainer, "it"),
	} {
		for call, containers := range map[string]int{"destroy": 1, "destroy-volume": 0} {
			t.Run(name+", "+call, func(t *testing.T) {
				t.Parallel()
				clk := newTestClock()
				r := newReborn(t, Options{clock: clk.clock()})
				asked, answer := make(chan struct{}), make(chan struct{})
				r.on[call] = func(n int, real func() error) error {
					if n > 1 {
						return real()
					}
					close(asked)
					<-answer
					return failure
				}
				c, err := r.h.Container(t.Context(), "owner", ContainerRequest{Outputs: []Output{{"o", "o"}}})
				if err != nil {
					t.Fatal(err)
				}
				p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "sleep 1000"}})
				if err != nil {
					t.Fatal(err)
				}
				since := clk.clock().wall()
				var caller sync.WaitGroup
				caller.Go(func() { _ = c.Destroy(testkit.Context(t)) }) // what it could not do is owed
				<-asked
				clk.pass(time.Minute)
				testkit.Until(t, "what is owed is known", func() bool { return r.h.Workers()[0].Owed.Containers == containers })
				if owed := r.h.Workers()[0].Owed; owed.Containers != containers || owed.Since.IsZero() || !owed.Since.Equal(since) {
					t.Errorf("owed is %+v, want %d containers since %v", owed, containers, since)
				}
				r.comeBack(t)
				told := waitOutcome(t, p)
				testkit.Until(t, "nothing is owed of the worker that was", func() bool { return r.h.Workers()[0].Owed.None() }) // though it has not answered
				caller.Wait()
				if state := stateOf(t, r.h, "owner"); state != lifecycle.ContainerDestroyed {
					t.Errorf("it is %s", state)
				}
				close(answer)
				destroyed(t, r.h, r.Runtime)
				if left := r.h.AwaitOwed(testkit.Context(t)); len(left) > 0 {
					t.Errorf("owed is %v", left)
				}
				again, err := r.h.FindProcess(t.Context(), "owner", MainProcess)
				if err != nil {
					t.Fatal(err)
				}
				if out := waitOutcome(t, again); (out.Exit == nil) != (told.Exit == nil) || fmt.Sprint(out.Err) != fmt.Sprint(told.Err) {
					t.Errorf("it was told as %+v, and is %+v", told, out)
				}
			})
		}
	}
}
