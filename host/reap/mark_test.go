package reap

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestMark(t *testing.T) {
	const grace = 5 * time.Minute
	c, v := Thing{ID: "c1", Kind: "container"}, Thing{ID: "v1", Kind: "volume"}
	both := []Thing{v, c}

	doomed, memory := Mark(both, nil, nil, start, grace)
	if len(doomed) != 0 {
		t.Fatalf("doomed at first sight: %v", doomed)
	}
	doomed, memory = Mark(both, nil, memory, start.Add(grace-time.Second), grace)
	if len(doomed) != 0 {
		t.Fatalf("doomed within the grace: %v", doomed)
	}
	doomed, _ = Mark(both, nil, memory, start.Add(grace), grace)
	if len(doomed) != 2 || doomed[0].Thing != c || doomed[0].Reason == "" {
		t.Fatalf("after the grace: %v, want the container before the volume, with reasons", doomed)
	}
	doomed, again := Mark(both, map[Thing]bool{v: true}, memory, start.Add(grace), grace)
	if len(doomed) != 1 || doomed[0].Thing != c {
		t.Fatalf("with a row for the volume: %v", doomed)
	}
	if doomed, _ = Mark(both, nil, again, start.Add(grace+time.Second), grace); len(doomed) != 1 {
		t.Errorf("what had a row in between begins anew: %v", doomed)
	}
	_, gone := Mark(nil, nil, memory, start.Add(time.Minute), grace)
	if doomed, _ = Mark(both, nil, gone, start.Add(grace), grace); len(doomed) != 0 {
		t.Errorf("what was not listed in between begins anew: %v", doomed)
	}
}

// Nothing that has a row is ever doomed, and nothing that was not listed without one for the grace; what was, is.
func TestMarkOverHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const grace = 10 * time.Second
		things := []Thing{{"a", "container"}, {"b", "volume"}, {"c", "volume"}}
		since := make(Unknown) // the model: since when each thing is listed without a row
		var memory Unknown
		now := start
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 6).Draw(t, "seconds")) * time.Second)
			var listed []Thing
			known := make(map[Thing]bool)
			for _, x := range things {
				if rapid.Bool().Draw(t, "listed") {
					listed = append(listed, x)
				}
				known[x] = rapid.IntRange(0, 3).Draw(t, "known") == 0
			}
			old := make(Unknown)
			for _, x := range things {
				unknown := false
				for _, l := range listed {
					unknown = unknown || l == x && !known[x]
				}
				first, had := since[x]
				delete(since, x)
				if !unknown {
					continue
				}
				if !had {
					first = now
				}
				since[x] = first
				if had && now.Sub(first) >= grace {
					old[x] = first
				}
			}
			var doomed []Doomed
			doomed, memory = Mark(listed, known, memory, now, grace)
			if len(doomed) != len(old) {
				t.Fatalf("doomed %v, want %v", doomed, old)
			}
			for _, d := range doomed {
				if _, ok := old[d.Thing]; !ok {
					t.Fatalf("doomed %v, want %v", doomed, old)
				}
			}
		}
	})
}
