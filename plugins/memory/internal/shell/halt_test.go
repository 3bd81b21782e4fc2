package shell

import (
	"io"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestHalt: between STOP and CONT nothing begins and nothing is written, and other signals wait, but for KILL.
func TestHalt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, begun, never string
		code                 int
	}{
		"reads":   {"echo ready; while read x; do echo got $x; done", "ready", "got", 143},
		"writes":  {"trap 'echo trapped; exit 3' TERM; while :; do echo tick; done", "tick", "", 3},
		"program": {"yes", "y\ny\n", "", 143},
		"both":    {"yes | while read x; do echo $x; done", "y\ny\n", "", 143},
	} {
		for _, end := range []string{"TERM", "KILL"} {
			t.Run(name+" "+end, func(t *testing.T) {
				t.Parallel()
				in, w := io.Pipe()
				defer w.Close()
				s := start(t, newNamespace(t, nil), "sh", []string{"-c", c.script}, in)
				s.out.await(t, c.begun)
				s.signals <- "STOP"
				s.signals <- "URG" // once that is taken the other was dealt with
				testkit.Until(t, "it is halted", func() bool { return len(s.signals) == 0 })
				go io.WriteString(w, "1\n")
				settled := func() int { // what was being written is by now
					start(t, newNamespace(t, nil), "sh", []string{"-c", "x=$(echo 1); echo $x | cat"}, nil).end(t)
					return len(s.out.String())
				}
				first := settled()
				s.signals <- "TERM"
				if then := settled(); then != first {
					t.Errorf("it wrote %d bytes while it was halted", then-first)
				}
				want := c.code
				if end == "KILL" {
					s.kill()
					want = 137
				} else {
					s.signals <- "CONT"
				}
				r := s.end(t)
				if text := s.out.String(); r.Code != want || c.never != "" && strings.Contains(text, c.never) {
					t.Errorf("%+v, and it wrote %.100q", r, text)
				}
			})
		}
	}
}
