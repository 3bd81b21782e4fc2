//go:build linux

package garden

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// behindProxy has the settings of the worker that the test asks in a process of its own: net/http reads its environment once.
const behindProxy = "SLIPWAY_TEST_BEHIND_PROXY"

// TestProxyOfTheEnvironment has a proxy in the plugin's environment which would swallow all calls. They go to both servers all the same.
func TestProxyOfTheEnvironment(t *testing.T) {
	if text := os.Getenv(behindProxy); text != "" {
		askBehindProxy(t, text)
		return
	}
	x := newWorld(t, gardentest.Options{}, nil)
	var asked atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	// Nothing is sent to a proxy that is meant for 127.0.0.1; 0.0.0.0 is the same machine, and no such exception.
	c := x.settings
	c.Garden = strings.Replace(c.Garden, "127.0.0.1", "0.0.0.0", 1)
	c.Baggageclaim = strings.Replace(c.Baggageclaim, "127.0.0.1", "0.0.0.0", 1)
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ask := exec.CommandContext(testkit.Context(t), self, "-test.run=^TestProxyOfTheEnvironment$", "-test.timeout=2m")
	ask.Env = append(os.Environ(), behindProxy+"="+string(text), "NO_PROXY=", "no_proxy=")
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		ask.Env = append(ask.Env, name+"="+proxy.URL, strings.ToLower(name)+"="+proxy.URL)
	}
	if out, err := ask.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the proxy was asked %d times", n)
	}
}

func askBehindProxy(t *testing.T, settings string) {
	var c Config
	if err := json.Unmarshal([]byte(settings), &c); err != nil {
		t.Fatal(err)
	}
	s, err := workerOf(t, newRuntime(t, c)).Status(testkit.Context(t))
	if err != nil || s.Health != sdk.Healthy {
		t.Errorf("%v: %q, %v", s.Health, s.Reason, err)
	}
}
