//go:build linux

package claim

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

func TestLocks(t *testing.T) {
	var l locks
	l.init()
	ctx := testkit.Context(t)
	var readers, writers atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				name := []string{"a", "b"}[(i+j)%2]
				switch {
				case (i+j)%3 == 0 && name == "a":
					unlock, err := l.exclusive(ctx, name)
					if err != nil {
						t.Error(err)
						return
					}
					if writers.Add(1) != 1 || readers.Load() != 0 {
						t.Error("two hold it")
					}
					writers.Add(-1)
					unlock()
				case name == "a":
					unlock, err := l.shared(ctx, name)
					if err != nil {
						t.Error(err)
						return
					}
					if readers.Add(1); writers.Load() != 0 {
						t.Error("it is read while it is written")
					}
					readers.Add(-1)
					unlock()
				default:
					unlock, err := l.both(ctx, []string{"c", "d"}[i%2], []string{"d", "c"}[i%2]) // crosswise
					if err != nil {
						t.Error(err)
						return
					}
					unlock()
				}
			}
		})
	}
	wg.Wait()
	if n := l.size(); n != 0 {
		t.Fatalf("%d names are left", n)
	}
}

// TestLocksGiveUp ends a wait, which must not hold up those behind it.
func TestLocksGiveUp(t *testing.T) {
	var l locks
	l.init()
	ctx := testkit.Context(t)
	unlock, err := l.shared(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	given, cancel := context.WithCancel(ctx)
	ended := make(chan error)
	go func() {
		_, err := l.exclusive(given, "a")
		ended <- err
	}()
	l.waitFor("a")
	go func() {
		second, err := l.shared(ctx, "a") // stands back for the writer
		if err == nil {
			second()
		}
		ended <- err
	}()
	cancel()
	one, two := <-ended, <-ended
	if one == nil {
		one, two = two, one
	}
	if one != context.Canceled || two != nil {
		t.Fatalf("the waits ended with %v and %v", one, two)
	}
	unlock()
	if n := l.size(); n != 0 {
		t.Fatalf("%d names are left", n)
	}
}

// TestLocksDestroy ends streams, those too that come while it waits.
func TestLocksDestroy(t *testing.T) {
	var l locks
	l.init()
	ctx := testkit.Context(t)
	cause := errors.New("destroyed")
	unlock, err := l.shared(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	first, endFirst := l.stream(ctx, "a")
	got := make(chan error)
	go func() {
		unlock, err := l.destroy(ctx, "a", cause)
		if err == nil {
			unlock()
		}
		got <- err
	}()
	<-first.Done()
	l.waitFor("a")
	second, endSecond := l.stream(ctx, "a")
	<-second.Done()
	if context.Cause(first) != cause || context.Cause(second) != cause {
		t.Errorf("the streams ended with %v and %v", context.Cause(first), context.Cause(second))
	}
	endFirst()
	endSecond()
	unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
	third, endThird := l.stream(ctx, "a")
	if third.Err() != nil {
		t.Error("a stream of a new thing with that name ends")
	}
	endThird()
	if n := l.size(); n != 0 {
		t.Fatalf("%d names are left", n)
	}
}
