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
		{Owner: "run/r/s", State: host.PlacementWaiting, Waited: time.Minute, Position: 2, Priority: -1, Reserved: "w",
			Workers: []pool.Verdict{{Worker: "v", Reason: pool.Reserved, Detail: "for another"},
				{Worker: "w", OK: true, Reason: pool.OK}}},
	} {
		if d := cmp.Diff(e, fromExplanation(pbExplanation("s", e))); d != "" {
			t.Error(d)
		}
	}
}
