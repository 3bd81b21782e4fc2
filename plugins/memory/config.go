package memory

import (
	"path/filepath"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// pluginConfig is the plugin block.
type pluginConfig struct {
	Shell  bool      `json:"shell" default:"true" doc:"Run shell scripts. They are run inside the plugin: switch it off for scripts that you do not trust."`
	Memory sdk.Bytes `json:"memory" default:"1GiB" doc:"Limit of the data in volumes, for all workers together that have none of their own."`
	World  string    `json:"world" doc:"Address of a memory world, such as \"unix:/run/user/1000/world.sock\". The world's own flags say all the rest."`
}

// workerConfig is a worker block.
type workerConfig struct {
	Memory sdk.Bytes `json:"memory" doc:"Limit of the data in this worker's volumes alone."`
}

func defaultConfig() pluginConfig { return pluginConfig{Shell: true, Memory: DefaultMemory} }

// settings are the blocks, read and checked.
type settings struct {
	workers []string
	options Options
	world   string // path of the world's socket; empty: this process is the world
}

func readConfig(cfg sdk.Config) (settings, error) {
	plugin := defaultConfig()
	if err := cfg.Plugin.Decode(&plugin); err != nil {
		return settings{}, err
	}
	s := settings{options: Options{
		Memory: int64(plugin.Memory), NoShell: !plugin.Shell, WorkerMemory: make(map[string]int64),
	}}
	for _, block := range cfg.Workers {
		var worker workerConfig
		if err := block.Decode(&worker); err != nil {
			return settings{}, err
		}
		s.workers = append(s.workers, block.Name)
		if worker.Memory != 0 {
			s.options.WorkerMemory[block.Name] = int64(worker.Memory)
		}
	}
	if plugin.World == "" {
		if plugin.Memory == 0 {
			return settings{}, sdk.NewInvalid(sdk.ReasonConfig, "plugin %q: \"memory\" must be more than 0", cfg.Plugin.Name)
		}
		return s, nil
	}
	// Whether a setting was left out or has its default cannot be told apart, and makes no difference.
	alone := plugin
	alone.World = ""
	if alone != defaultConfig() || len(s.options.WorkerMemory) > 0 {
		return settings{}, sdk.NewInvalid(sdk.ReasonConfig,
			"plugin %q: with \"world\" nothing else can be set here; give the world its flags", cfg.Plugin.Name)
	}
	path, ok := strings.CutPrefix(plugin.World, "unix:")
	if !ok || !filepath.IsAbs(path) {
		return settings{}, sdk.NewInvalid(sdk.ReasonConfig,
			"plugin %q: world %q must be \"unix:\" and the absolute path of a socket", cfg.Plugin.Name, plugin.World)
	}
	s.world = filepath.Clean(path)
	return s, nil
}
