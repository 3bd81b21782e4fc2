package api

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/pool"
)

// An explanation says the same on both sides of the API.
func TestExplanationCrossesTheAPI(t *testing.T) {
	for _, e := range []*host.Explanation{
		{Owner: "run/r/s", State: host.PlacementPlaced, Worker: "w", Held: true, At: time.Unix(7, 0), Waited: time.Second,
			Scores: []pool.Score{{Strategy: pool.VolumeLocality, Value: 3}}},
		{Owner: "run/r/s", State: host.PlacementWaiting, Waited: time.Minute, Position: 2, Priority: -1, Reserved: "w", ReservedUntil: time.Unix(8, 0),
			InTheWay: pool.Holders{{Owner: "o", Volumes: 2, Claimed: 1, Resources: pool.Resources{CPUMillis: 1, MemoryBytes: 2, DiskBytes: 3, PIDs: 4}, Why: "kept"}},
			Workers: []pool.Verdict{{Worker: "v", Reason: pool.Reserved, Detail: "for another"},
				{Worker: "u", Reason: pool.FullVolumes, Holders: pool.Holders{{Artifact: "a", Volumes: 1}, {Cache: "c", Volumes: 1}, {Going: true, Volumes: 1}, {Others: true, Volumes: 1}}},
				{Worker: "w", OK: true, Reason: pool.OK}}},
		{State: host.PlacementAsked, Worker: "w", Turn: 3, Before: []string{"run/q/s", "run/q/t"},
			Copies: []host.Copy{{Name: "input.src", Bytes: 5, From: []string{"v", "host"}}, {Name: "step.a.b"}}},
	} {
		if d := cmp.Diff(e, fromExplanation(pbExplanation("s", e))); d != "" {
			t.Error(d)
		}
	}
}
