package garden

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// TestNetworksOfServer: a server is told what containers may reach, and of a hermetic one nothing.
func TestNetworksOfServer(t *testing.T) {
	w := &worker{config: Config{AllowNetworks: []string{"10.0.0.0/8"}, DenyNetworks: []string{"10.1.0.0/16"}}}
	for hermetic, want := range map[bool][]string{false: {"10.0.0.0-10.0.255.255", "10.2.0.0-10.255.255.255"}, true: nil} {
		var got []string
		for _, rule := range w.gardenSpec(sdk.ContainerSpec{ID: "c", Hermetic: hermetic}, owned{}).NetOut {
			for _, r := range rule.Networks {
				got = append(got, r.Start.String()+"-"+r.End.String())
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("hermetic %v (-want +got):\n%s", hermetic, d)
		}
	}
}

// TestHermeticBySetting: whether a container can be without a network is looked for, unless the operator knows it.
func TestHermeticBySetting(t *testing.T) {
	for setting, named := range map[string]bool{"net-out": true, "probe": false, "no": false} {
		w := &worker{config: Config{Hermetic: setting}}
		if got := slices.Contains(w.configured(), sdk.FeatureNetworkNone); got != named {
			t.Errorf("%s: without a look network.none is named: %v, want %v", setting, got, named)
		}
	}
}
