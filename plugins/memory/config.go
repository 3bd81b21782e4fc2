package memory

import (
	"path/filepath"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// pluginConfig is the plugin block.
type pluginConfig struct {
	Shell         bool      `json:"shell" default:"true" doc:"Run shell scripts and utilities. They are run inside the plugin: switch it off for what you do not trust, and only WASI programs run."`
	Programs      string    `json:"programs" default:"compiled" oneof:"compiled,interpreted,off" doc:"How WASI programs are executed. Interpreted is many times slower, but makes no machine code."`
	Memory        sdk.Bytes `json:"memory" default:"1GiB" doc:"Limit of the data in volumes, for all workers together that have none of their own."`
	ProgramMemory sdk.Bytes `json:"program-memory" default:"2GiB" doc:"Limit of the memory of all running WASI programs together. One that asks for more is ended."`
	World         string    `json:"world" doc:"Address of a memory world, such as \"unix:/run/user/1000/world.sock\". The world's own flags say all the rest."`
}

// workerConfig is a worker block.
type workerConfig struct {
	Shell  bool      `json:"shell" default:"true" doc:"Whether this worker runs scripts, if the plugin does. Without them it is a sandbox for WASI programs."`
	Memory sdk.Bytes `json:"memory" doc:"Limit of the data in this worker's volumes alone."`
	Zone   string    `json:"zone" doc:"Workers of this plugin in one zone send volumes straight to each other. Without one they do not."`

	Faults []faultConfig `json:"fault" doc:"Calls that go wrong, for tests of what calls this worker."`
}

// Values of the setting programs.
const (
	programsCompiled    = "compiled"
	programsInterpreted = "interpreted"
	programsOff         = "off"
)

func defaultConfig() pluginConfig {
	return pluginConfig{Shell: true, Programs: programsCompiled, Memory: DefaultMemory, ProgramMemory: DefaultProgramMemory}
}

func defaultWorkerConfig() workerConfig { return workerConfig{Shell: true} }

// options are the worker's, and whether all but the faults are the defaults.
func (c workerConfig) options() (opts WorkerOptions, plain bool) {
	opts = WorkerOptions{Memory: int64(c.Memory), NoShell: !c.Shell, Zone: c.Zone}
	plain = opts.Memory == 0 && !opts.NoShell && opts.Zone == ""
	for _, f := range c.Faults {
		opts.Faults = append(opts.Faults, f.fault())
	}
	return opts, plain
}

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
	s := settings{options: plugin.options()}
	s.options.Workers = make(map[string]WorkerOptions)
	changed := false
	for _, block := range cfg.Workers {
		worker := defaultWorkerConfig()
		if err := block.Decode(&worker); err != nil {
			return settings{}, err
		}
		opts, plain := worker.options()
		for i, f := range opts.Faults {
			if err := f.Check(); err != nil {
				return settings{}, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: fault %d: %v", block.Name, i+1, err)
			}
		}
		s.workers = append(s.workers, block.Name)
		s.options.Workers[block.Name] = opts
		changed = changed || !plain
	}
	if plugin.World == "" {
		return s, plugin.check(cfg.Plugin.Name)
	}
	// Whether a setting was left out or has its default cannot be told apart, and makes no difference.
	alone := plugin
	alone.World = ""
	if alone != defaultConfig() || changed {
		return settings{}, sdk.NewInvalid(sdk.ReasonConfig,
			"plugin %q: with \"world\" nothing else can be set here but faults; give the world its flags", cfg.Plugin.Name)
	}
	path, ok := strings.CutPrefix(plugin.World, "unix:")
	if !ok || !filepath.IsAbs(path) {
		return settings{}, sdk.NewInvalid(sdk.ReasonConfig,
			"plugin %q: world %q must be \"unix:\" and the absolute path of a socket", cfg.Plugin.Name, plugin.World)
	}
	s.world = filepath.Clean(path)
	return s, nil
}

func (c pluginConfig) options() Options {
	return Options{
		Memory: int64(c.Memory), ProgramMemory: int64(c.ProgramMemory), NoShell: !c.Shell,
		NoPrograms: c.Programs == programsOff, Interpret: c.Programs == programsInterpreted,
	}
}

// check is for what a schema cannot say, and for hosts that do not look at it.
func (c pluginConfig) check(plugin string) error {
	switch {
	case c.Memory == 0:
		return sdk.NewInvalid(sdk.ReasonConfig, "plugin %q: \"memory\" must be more than 0", plugin)
	case c.ProgramMemory == 0:
		return sdk.NewInvalid(sdk.ReasonConfig, "plugin %q: \"program-memory\" must be more than 0", plugin)
	case c.Programs != programsCompiled && c.Programs != programsInterpreted && c.Programs != programsOff:
		return sdk.NewInvalid(sdk.ReasonConfig, "plugin %q: \"programs\" must be %q, %q or %q", plugin, programsCompiled, programsInterpreted, programsOff)
	}
	return nil
}
