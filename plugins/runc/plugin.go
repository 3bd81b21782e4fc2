//go:build linux

package runc

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/machine"
)

// Version of this plugin.
const Version = "0.1.0-alpha.1"

// Config is a worker block.
type Config struct {
	State  string `json:"state" required:"true" doc:"Absolute path of the directory where volumes and containers are kept. Made where missing; for root alone."`
	Runc   string `json:"runc" default:"runc" doc:"The runc program: a path, or a name to seek in PATH."`
	Rootfs string `json:"rootfs" doc:"Absolute path of a directory that is the root of containers without an image; each gets a copy. Without it they get busybox."`
	Shim   string `json:"shim" doc:"Absolute path of the program slipway-shim for containers. Without it: slipway-shim-linux-ARCHITECTURE beside the plugin's own program."`
}

// Plugin is the plugin, to be handed to rpc.Serve.
func Plugin() sdk.Plugin { return machine.Plugin("runc", Version, open) }

// open says what a worker is. What machine says of its directory and the shim is said there.
func open(worker string, c Config) (machine.Functions, machine.Options, error) {
	unfit := func(format string, args ...any) (machine.Functions, machine.Options, error) {
		return machine.Functions{}, machine.Options{}, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: %s", worker, fmt.Sprintf(format, args...))
	}
	if !filepath.IsAbs(c.State) {
		return unfit("state %q must be an absolute path", c.State)
	}
	if c.Shim == "" {
		self, err := os.Executable()
		if err != nil {
			return unfit("set \"shim\": this program does not know its own place: %v", err)
		}
		c.Shim = filepath.Join(filepath.Dir(self), "slipway-shim-linux-"+runtime.GOARCH)
	}
	if err := os.MkdirAll(c.State, 0o700); err != nil {
		return unfit("state %s: %v", c.State, err)
	}
	e, err := engine.New(filepath.Join(c.State, "engine"), engine.Options{Runc: c.Runc})
	if err != nil { // it names what is wrong: the program runc or the directory
		return unfit("%v", err)
	}
	features := []sdk.Feature{sdk.FeatureNetworkNone, sdk.FeaturePrivileged}
	for _, controller := range e.Controllers() {
		features = append(features, sdk.Feature("limits."+controller))
	}
	d := driver{e}
	return machine.Functions{Create: d.create, Exec: d.exec, Destroy: d.destroy, Runs: d.runs}, machine.Options{
		Dir: c.State, Shim: c.Shim, Base: c.Rootfs, Features: features, Tried: []sdk.Feature{sdk.FeatureLimitsDisk},
	}, nil
}
