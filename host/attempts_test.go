package host

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// loser answers that the processes of the first containers that are started in are abandoned.
type loser struct {
	mu    sync.Mutex
	loses int
	lost  map[string]bool // containers
}

func (l *loser) hook(_ context.Context, call, id string, _ int, real func() error) error {
	l.mu.Lock()
	if call == "start" && len(l.lost) < l.loses {
		l.lost[id] = true
	}
	lost := l.lost[id]
	l.mu.Unlock()
	if call == "follow" && lost {
		return &sdk.Error{Class: sdk.FailedPrecondition, Reason: sdk.ReasonAbandoned, Message: "its keeper was killed"}
	}
	return real()
}

// A lost step is tried again on another worker as often as its job says, and never where it was lost; by default it is not. One that
// was given a stdin is not, for nobody could give it that again.
func TestAttempts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		workers []string
		loses   int
		attempt string
		stdin   io.Reader
		want    StepState
		starts  int
		says    string
	}{
		{"by default once", []string{"a", "b"}, 1, "", nil, StepLost, 1, "is lost: "},
		{"again elsewhere", []string{"a", "b"}, 1, "attempts = 3", nil, StepSucceeded, 2, ""},
		{"until they are used up", []string{"a", "b", "c"}, 3, "attempts = 2", nil, StepLost, 2, "is lost: "},
		{"no other worker", []string{"a"}, 1, "attempts = 3", nil, StepLost, 1, "it is not tried again: no compatible worker"},
		{"with stdin", []string{"a", "b"}, 1, "attempts = 3", strings.NewReader("x"), StepLost, 1, "is lost: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := &loser{loses: tt.loses, lost: make(map[string]bool)}
			o := &hooked{Runtime: newMemory(t, tt.workers...), hook: l.hook}
			h := openHost(t, o, Options{}, tt.workers...)
			var mu sync.Mutex
			var again, placed []string
			res, err := h.Run(t.Context(), RunRequest{Stdin: tt.stdin, Job: parseJob(t, `
job "j" {
  step "s" {
    `+tt.attempt+`
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "echo made > o/f"]
    }
  }
  step "uses" {
    inputs = { o = step.s.o }
    run {
      path = "grep"
      args = ["made", "o/f"]
    }
  }
}`), Events: func(e Event) {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case e.Kind == EventAgain:
					again = append(again, e.Worker+": "+e.Message)
				case e.Kind == EventPlaced && e.Step == "s":
					placed = append(placed, e.Worker)
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			s := res.Steps[0]
			if s.State != tt.want || s.Attempts != tt.starts || len(placed) != tt.starts || len(again) != tt.starts-1 && tt.says != "it is not tried again: no compatible worker" {
				t.Errorf("%s after %d attempts on %q, again %q: %v", s.State, s.Attempts, placed, again, s.Err)
			}
			if tt.says != "" && (s.Err == nil || !strings.Contains(s.Err.Error(), tt.says)) {
				t.Errorf("it says %v, want %q", s.Err, tt.says)
			}
			if tt.want == StepSucceeded && res.Steps[1].State != StepSucceeded {
				t.Errorf("the step that uses its output: %v", res.Steps[1].Err)
			}
			if len(placed) == 2 && placed[0] == placed[1] {
				t.Errorf("tried again where it was lost, on %s", placed[0])
			}
			for i, why := range again {
				if !strings.HasPrefix(why, placed[i]+": ") || !strings.Contains(why, "nobody was left to see how it ended") {
					t.Errorf("again because of %q", why)
				}
			}
			if tt.want == StepSucceeded {
				checkEmpty(t, h)
			}
		})
	}
}

// A run that was resumed between two attempts goes on with the second.
func TestAttemptsAreResumed(t *testing.T) {
	t.Parallel()
	l := &loser{loses: 1, lost: make(map[string]bool)}
	dir, o := t.TempDir(), &hooked{Runtime: newMemory(t, "a", "b"), hook: l.hook}
	h := openHost(t, o, Options{StateDir: dir}, "a", "b")
	req := RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  step "s" {
    attempts = 2
    run { path = "true" }
  }
}`)}
	req.Events = func(e Event) {
		if e.Kind == EventAgain {
			h.cancel() // the host ends
		}
	}
	if _, err := h.Run(t.Context(), req); err == nil {
		t.Fatal("the run has ended though its host has")
	}
	closeTestHost(t, h)
	h = openHost(t, o, Options{StateDir: dir}, "a", "b")
	req.Events = nil
	res, err := h.Run(t.Context(), req)
	if err != nil || res.Steps[0].State != StepSucceeded || res.Steps[0].Attempts != 2 {
		t.Errorf("%+v, %v", res, err)
	}
	if n := o.usedTokens(); n != 2 {
		t.Errorf("%d starts", n)
	}
}
