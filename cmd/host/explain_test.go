package main

import (
	"testing"
	"time"

	"github.com/slipway-run/slipway/host"
)

func TestOutcomeOfOneThatWaits(t *testing.T) {
	e := &host.Explanation{State: host.PlacementWaiting, Waited: 90 * time.Second, Position: 2}
	if got, want := outcome(e), "waits for 1m30s, number 2 in the queue"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	e.Reserved = "left"
	want := "waits for 1m30s, number 2 in the queue, for worker left, which is reserved for it"
	if got := outcome(e); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
