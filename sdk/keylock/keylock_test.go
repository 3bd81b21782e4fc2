package keylock

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
)

// TestLock: one holder of a name at a time, others are not held up, and nothing is kept afterwards.
func TestLock(t *testing.T) {
	var l Locks
	var counts [3]int // guarded by their names' locks, which the race detector sees
	var own sync.WaitGroup
	for i := range 300 {
		own.Go(func() {
			unlock, err := l.Lock(t.Context(), strconv.Itoa(i%len(counts)))
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			counts[i%len(counts)]++
		})
	}
	own.Wait()
	if counts != [3]int{100, 100, 100} || len(l.names) != 0 {
		t.Errorf("counted %v; %d names are kept", counts, len(l.names))
	}
}

func TestLockGivesUp(t *testing.T) {
	var l Locks
	unlock, err := l.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() {
		_, err := l.Lock(ctx, "a")
		waiting <- err
	}()
	other, err := l.Lock(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that is given up: %v", err)
	}
	unlock()
	if _, err := l.Lock(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if len(l.names) != 0 {
		t.Errorf("%d names are kept", len(l.names))
	}
}
