package main

import (
	"slices"
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

// What would be copied is told with where it is, as far as that is known.
func TestDetailsOfCopies(t *testing.T) {
	got := details(&host.Explanation{State: host.PlacementAsked, Worker: "w", Copies: []host.Copy{
		{Name: "input.src"}, {Name: "step.make.bin"}, {Name: "step.other.bin", From: []string{"v"}}, {Name: "image", Bytes: 2048, From: []string{"u", "host"}}}})
	want := []string{"would be copied there: input.src, from whoever runs the job", "would be copied there: step.make.bin, from where that step will run",
		"would be copied there: step.other.bin, from v", "would be copied there: image, 2.0 KiB, from u or host"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
