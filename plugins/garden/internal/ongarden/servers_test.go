//go:build linux

package ongarden

import (
	"encoding/json"
	"runtime"
	"testing"

	"github.com/slipway-run/slipway/plugins/garden"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// busyboxVolume is the handle of a volume that tests put on a server themselves.
const busyboxVolume = "busybox"

// manyContainers are servers for more than some hundred at once: the kernel gives 200 keys to any user but root, and each container has two.
func manyContainers() gardentest.Options { return gardentest.Options{NoUserNamespaces: true} }

// settings are those of a worker on the servers, with busybox for containers that have no image.
func settings(t testing.TB, s *gardentest.Servers) garden.Config {
	t.Helper()
	return garden.Config{
		Garden: s.Garden, Baggageclaim: s.Baggageclaim, Rootfs: s.Volume(t, busyboxVolume, gardentest.Busybox(t), false) + "/rootfs",
		Architecture: runtime.GOARCH,
	}
}

// block is a worker block with these settings; what is zero in them is left to the defaults.
func block(t testing.TB, name string, c garden.Config) sdk.Block {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]any)
	if err := json.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	for k, v := range values {
		switch v {
		case "", 0.0, nil, false:
			delete(values, k)
		}
	}
	if text, err = json.Marshal(values); err != nil {
		t.Fatal(err)
	}
	return sdk.Block{Name: name, Values: text}
}
