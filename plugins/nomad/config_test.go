//go:build linux

package nomad

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// TestConfig gives settings that cannot work. What is said names the worker and the setting.
func TestConfig(t *testing.T) {
	good := Config{
		Address: "http://10.0.0.1:4646", Namespace: "default", Driver: "docker", Image: "busybox:1.36", Privileged: "deny", Architecture: "amd64", ShimPath: "/opt/slipway-shim",
		CPU: 100, Memory: 1 << 20, MaxConnections: 32, Rate: 20, PlaceTimeout: 1, StartTimeout: 1, RequestTimeout: 1,
		Store: &StoreConfig{HostVolume: "slipway", Path: "/opt/slipway-store"},
	}
	checked, err := good.check("w")
	if err != nil {
		t.Fatal(err)
	}
	if s := checked.Store; s.Driver != "docker" || s.Image != "busybox:1.36" || s.Zone != "global" || s.Memory == 0 || s.CPU == 0 {
		t.Errorf("what the block leaves out is %+v", s)
	}
	if *good.Store != (StoreConfig{HostVolume: "slipway", Path: "/opt/slipway-store"}) {
		t.Error("the caller's block was changed")
	}
	here := filepath.Join(t.TempDir(), "nothing")
	for name, c := range map[string]struct {
		change func(*Config)
		words  []string
	}{
		"no host volume":            {func(c *Config) { c.Store.HostVolume = "" }, []string{"store", "host_volume"}},
		"no image":                  {func(c *Config) { c.Image = "" }, []string{"image"}},
		"a store's image elsewhere": {func(c *Config) { c.Store.Driver, c.Store.Image = "raw_exec", "x" }, []string{"store", "image", "raw_exec"}},
		"a port that is none":       {func(c *Config) { c.Store.Port = 70000 }, []string{"store", "port 70000"}},
		"negative memory":           {func(c *Config) { c.Store.Memory = -1 }, []string{"store", "memory"}},
		"a relative path":           {func(c *Config) { c.Store.Path = "opt/slipway-store" }, []string{"store", "path", "opt/slipway-store"}},
		"two ways to the store":     {func(c *Config) { c.Store.Program = here }, []string{"store", "program"}},
		"no way to the store":       {func(c *Config) { c.Store.Path, c.Store.Program = "", "/bin/sh" }, []string{"slipway-store", "path of store", "shim_address"}},
		"no program of the store": {func(c *Config) {
			c.Store.Path, c.Store.Program, c.Listen, c.Serve = "", here, ":4650", "http://10.0.0.9:4650"
		}, []string{"store", here, "make build"}},
		"no way to the shim":     {func(c *Config) { c.ShimPath = "" }, []string{"slipway-shim", "shim_path", "shim_address"}},
		"no program of the shim": {func(c *Config) { c.ShimPath, c.Shim, c.Listen, c.Serve = "", here, ":4650", "http://10.0.0.9:4650" }, []string{here, "make build"}},
		"two ways to the shim":   {func(c *Config) { c.Shim = here }, []string{"shim_path", "shim"}},
		"served for nobody":      {func(c *Config) { c.Listen, c.Serve = ":4650", "http://10.0.0.9:4650" }, []string{"shim_listen", "shim_address"}},
		"an address of no kind":  {func(c *Config) { c.Address = "10.0.0.1:4646" }, []string{"address", "10.0.0.1:4646"}},
		"two tokens":             {func(c *Config) { c.Token, c.TokenFile = "a", "b" }, []string{"token", "token_file"}},
		"half a certificate":     {func(c *Config) { c.ClientCert = "a" }, []string{"client_cert", "client_key"}},
		"no connections":         {func(c *Config) { c.MaxConnections = 0 }, []string{"max_connections"}},
	} {
		t.Run(name, func(t *testing.T) {
			bad, store := good, *good.Store
			bad.Store = &store
			c.change(&bad)
			_, err := bad.check("w")
			if !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonConfig) {
				t.Fatalf("%v", err)
			}
			for _, word := range append(c.words, `"w"`) {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not name %s", err, word)
				}
			}
		})
	}
}
