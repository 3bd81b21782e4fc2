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
	e.Reserved, e.ReservedUntil = "left", time.Date(2026, 5, 4, 3, 2, 1, 0, time.Local)
	want := "waits for 1m30s, number 2 in the queue, for worker left, which is reserved for it until 2026-05-04 03:02:01 at the latest"
	if got := outcome(e); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
