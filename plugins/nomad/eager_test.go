//go:build linux

package nomad

import (
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// TestEager has tries spread after each event, few of them later, and none while a node fetches something.
func TestEager(t *testing.T) {
	begin := time.Now()
	told := func(types ...string) *api.TaskState {
		s := &api.TaskState{State: "pending"}
		for _, kind := range types {
			s.Events = append(s.Events, &api.TaskEvent{Type: kind})
		}
		return s
	}
	var e eager
	tries := func(from, to time.Duration, s *api.TaskState) (at []time.Duration) {
		for now := from; now < to; {
			due, wait := e.due(begin.Add(now), s)
			if due {
				at = append(at, now)
				continue
			}
			if wait <= 0 || wait > eagerWait {
				t.Fatalf("at %v it waits %v", now, wait)
			}
			now += wait
		}
		return at
	}
	const ms = time.Millisecond
	first := tries(0, 20*time.Second, nil)
	if len(first) < 4 || first[0] != 20*ms || first[1] != 60*ms || first[2] != 140*ms || first[3] != 300*ms {
		t.Errorf("the first tries are at %v", first)
	}
	soon := 0
	for i, at := range first {
		if at < eagerSpan {
			soon++
		} else if i+1 < len(first) && first[i+1]-at != eagerLater {
			t.Errorf("tries at %v and %v", at, first[i+1])
		}
	}
	if soon > 11 || len(first) > 16 {
		t.Errorf("%d tries in %v, %d in all: %v", soon, eagerSpan, len(first), first)
	}
	if again := tries(20*time.Second, 21*time.Second, told(api.TaskReceived)); len(again) < 4 || again[0] != 20*time.Second+20*ms {
		t.Errorf("after an event: %v", again)
	}
	for _, kind := range []string{api.TaskDownloadingArtifacts, api.TaskDriverMessage} {
		if none := tries(30*time.Second, 600*time.Second, told(api.TaskReceived, api.TaskSetup, kind)); len(none) > 0 {
			t.Errorf("while it says %q: %v", kind, none)
		}
	}
}
