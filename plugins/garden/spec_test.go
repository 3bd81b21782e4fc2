package garden

import (
	"testing"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// TestSpecOfServer: a server keeps a container for longer than any host is away, whatever its operator has set, and knows which volumes it can write.
func TestSpecOfServer(t *testing.T) {
	w := &worker{}
	s := w.gardenSpec(sdk.ContainerSpec{ID: "c", Mounts: []sdk.Mount{{Volume: "a", Path: "/a"}, {Volume: "b", Path: "/b", ReadOnly: true}, {Volume: "c", Path: "/c"}}},
		owned{mounts: make([]string, 3)})
	if s.GraceTime < 365*24*time.Hour {
		t.Errorf("it is destroyed after %v", s.GraceTime)
	}
	if got := s.Properties[propWrites]; got != "a,c" {
		t.Errorf("it can write %q", got)
	}
}
