//go:build linux

package runc

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"runtime"

	"github.com/slipway-run/slipway/sdk"
)

// Version of this plugin.
const Version = "0.1.0-alpha.1"

// Config is a worker block.
type Config struct {
	State  string `json:"state" required:"true" doc:"Absolute path of the directory where volumes and containers are kept. Made where missing; for root alone."`
	Runc   string `json:"runc" default:"runc" doc:"The runc program: a path, or a name to seek in PATH."`
	Rootfs string `json:"rootfs" doc:"Absolute path of a directory that is the root of containers without an image; each gets a copy. Without it they get busybox."`
	Shim   string `json:"shim" doc:"Absolute path of the program slipway-shim for containers. Without it: slipway-shim-linux-ARCHITECTURE beside the plugin's own program."`
	Keeper string `json:"keeper" default:"serve" oneof:"serve,init" doc:"How the keeper of a container's processes comes to be: \"serve\" is process 1 itself, \"init\" the first command that is run beside a process 1 that does nothing."`
}

// Plugin is the plugin, to be handed to rpc.Serve.
func Plugin() sdk.Plugin {
	return sdk.Plugin{
		Name:    "runc",
		Version: Version,
		Worker:  Config{},
		Open: func(ctx context.Context, cfg sdk.Config) (sdk.Runtime, error) {
			workers := make(map[string]Config, len(cfg.Workers))
			for _, block := range cfg.Workers {
				var c Config
				if err := block.Decode(&c); err != nil {
					return nil, err
				}
				workers[block.Name] = c
			}
			r, err := New(ctx, workers, Options{Log: cfg.Log})
			if err != nil {
				return nil, err
			}
			context.AfterFunc(ctx, func() {
				if err := r.Close(); err != nil {
					cfg.Log.Error("not all is closed", "error", err)
				}
			})
			return r, nil
		},
	}
}

// check fills in what a block leaves out.
func (c Config) check(worker string) (Config, error) {
	c.Runc, c.Keeper = cmp.Or(c.Runc, "runc"), cmp.Or(c.Keeper, "serve")
	if c.Shim == "" {
		self, err := os.Executable()
		if err != nil {
			return c, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: set \"shim\": this program does not know its own place: %v", worker, err)
		}
		c.Shim = filepath.Join(filepath.Dir(self), "slipway-shim-linux-"+runtime.GOARCH)
	}
	for name, path := range map[string]string{"state": c.State, "shim": c.Shim} {
		if !filepath.IsAbs(path) {
			return c, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: %s %q must be an absolute path", worker, name, path)
		}
	}
	if info, err := os.Stat(c.Shim); err != nil || !info.Mode().IsRegular() {
		return c, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: there is no program %s; set \"shim\" to where slipway-shim is (make build makes it)", worker, c.Shim)
	}
	if c.Rootfs != "" {
		if info, err := os.Stat(c.Rootfs); !filepath.IsAbs(c.Rootfs) || err != nil || !info.IsDir() {
			return c, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: rootfs %q must be the absolute path of a directory", worker, c.Rootfs)
		}
	}
	return c, nil
}
