package garden

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-run/slipway/sdk"
)

func TestConfigRefuses(t *testing.T) {
	shim := filepath.Join(t.TempDir(), "shim")
	if err := os.WriteFile(shim, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Config)
		words  string // what the error must name
	}{
		"no scheme":            {func(c *Config) { c.Garden = "10.0.0.5:7777" }, "tcp://HOST:PORT"},
		"no port":              {func(c *Config) { c.Garden = "tcp://10.0.0.5" }, "tcp://HOST:PORT"},
		"a relative socket":    {func(c *Config) { c.Garden = "unix://garden.sock" }, "unix:///PATH"},
		"no URL":               {func(c *Config) { c.Baggageclaim = "10.0.0.5:7788" }, "baggageclaim"},
		"no shim":              {func(c *Config) { c.Shim = "/not/there" }, "make build"},
		"no shim beside it":    {func(c *Config) { c.Shim = "" }, "/slipway-shim-linux-amd64"},
		"nor for arm64":        {func(c *Config) { c.Shim, c.Architecture = "", "arm64" }, "/slipway-shim-linux-arm64"},
		"a relative rootfs":    {func(c *Config) { c.Rootfs = "images/busybox" }, "rootfs"},
		"importing everything": {func(c *Config) { c.Imports = []string{"/"} }, "imports"},
		"one type twice": {func(c *Config) {
			c.ResourceType = []ResourceType{{Name: "git", Image: "/git"}, {Name: "git", Image: "/git"}}
		}, "git"},
		"a privileged type":     {func(c *Config) { c.ResourceType = []ResourceType{{Name: "git", Image: "/git", Privileged: true}} }, `privileged = "allow"`},
		"not a network":         {func(c *Config) { c.DenyNetworks = []string{"10.0.0.0"} }, "deny_networks"},
		"peers in no zone":      {func(c *Config) { c.Peers = "plugin" }, "peer_zone"},
		"a negative limit":      {func(c *Config) { c.PIDs = -1 }, "pids"},
		"a negative time limit": {func(c *Config) { c.RequestTimeout = -1 }, "request_timeout"},
	} {
		config := Config{Garden: "tcp://127.0.0.1:7777", Baggageclaim: "http://127.0.0.1:7788", Shim: shim, Privileged: "deny"}
		c.change(&config)
		rt, err := New(map[string]Config{"linux-1": config}, Options{})
		if rt != nil || !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonConfig) || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), `"linux-1"`) {
			t.Errorf("%s: %v; it must be Invalid, name the worker and say %q", name, err, c.words)
		}
	}
}

// TestWorkersShowNoPassword looks at what anybody who lists workers sees.
func TestWorkersShowNoPassword(t *testing.T) {
	shim := filepath.Join(t.TempDir(), "shim")
	if err := os.WriteFile(shim, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	rt, err := New(map[string]Config{"w": {Garden: "tcp://127.0.0.1:7777", Baggageclaim: "http://user:hidden@127.0.0.1:7788", Shim: shim}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	seen := errors.New("seen")
	err = rt.Workers(t.Context(), func(e sdk.WorkerEvent) error {
		at := e.Workers[0].Attributes["baggageclaim"]
		if strings.Contains(at, "hidden") || !strings.Contains(at, "127.0.0.1:7788") {
			t.Errorf("baggageclaim is at %q", at)
		}
		return seen
	})
	if err != seen {
		t.Error(err)
	}
}

func TestNetOut(t *testing.T) {
	for name, c := range map[string]struct {
		allow, deny []string
		want        []string
	}{
		"everything":         {want: []string{"0.0.0.0-255.255.255.255"}},
		"all but one":        {deny: []string{"10.0.0.0/8"}, want: []string{"0.0.0.0-9.255.255.255", "11.0.0.0-255.255.255.255"}},
		"only one":           {allow: []string{"10.1.2.3/16"}, want: []string{"10.1.0.0-10.1.255.255"}},
		"one in another":     {allow: []string{"10.0.0.0/8"}, deny: []string{"10.0.0.0/9"}, want: []string{"10.128.0.0-10.255.255.255"}},
		"at the last end":    {deny: []string{"255.0.0.0/8"}, want: []string{"0.0.0.0-254.255.255.255"}},
		"nothing is left":    {allow: []string{"10.0.0.0/8"}, deny: []string{"0.0.0.0/0"}},
		"of the newer kind":  {allow: []string{"10.0.0.0/8", "fd00::/8"}, want: []string{"10.0.0.0-10.255.255.255", "fd00::-fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}},
		"without the newer":  {deny: []string{"::/0"}, want: []string{"0.0.0.0-255.255.255.255"}},
		"deny what is apart": {allow: []string{"10.0.0.0/8"}, deny: []string{"192.168.0.0/16"}, want: []string{"10.0.0.0-10.255.255.255"}},
	} {
		var got []string
		for _, rule := range (Config{AllowNetworks: c.allow, DenyNetworks: c.deny}).netOut() {
			for _, r := range rule.Networks {
				got = append(got, r.Start.String()+"-"+r.End.String())
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
