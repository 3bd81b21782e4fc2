package mutant

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// ByName stands for a mutant in [Serve]: each worker is then broken as its name says, and [None] is not.
const ByName = "by-name"

// Serve is the main of a program that is a plugin: the one of command, whose workers are broken. It has that plugin's settings, and passes
// them on as they are. The name is that of a mutant, [None], or [ByName]. The plugin's program gets this process's environment without what
// belongs to the handshake, and ends with this one. Serve returns as rpc.Serve does.
func Serve(name string, command []string) error {
	if len(command) == 0 {
		return fmt.Errorf("mutant %q: name the program of the plugin that is to be broken", name)
	}
	m, ok := Find(name)
	if m.wire != nil {
		return serveWire(*m.wire, command)
	}
	if !ok && name != None && name != ByName && name != ByNameWithExtras {
		return fmt.Errorf("there is no mutant %q", name)
	}
	var mu sync.Mutex
	var inst *conformance.Instance
	rpc.Serve(sdk.Plugin{Name: "mutant", Open: func(ctx context.Context, cfg sdk.Config) (sdk.Runtime, error) {
		i, err := open(ctx, name, command, cfg)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		inst = i
		rt := &runtime{Runtime: i.Runtime, name: name, workers: make(map[string]sdk.Worker)}
		if name == ByNameWithExtras {
			rt.peers = newPeers()
		}
		return rt, nil
	}})
	mu.Lock()
	defer mu.Unlock()
	if inst != nil {
		inst.Close()
	}
	return nil
}

// open starts the good plugin.
func open(ctx context.Context, name string, command []string, cfg sdk.Config) (*conformance.Instance, error) {
	for _, w := range cfg.Workers {
		if _, ok := Find(w.Name); (name == ByName || name == ByNameWithExtras) && !ok && w.Name != None && w.Name != Beside {
			return nil, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: there is no mutant of that name", w.Name)
		}
	}
	return conformance.Command(conformance.Program{
		Path: command[0], Args: command[1:], Env: ownEnvironment(), Plugin: cfg.Plugin, Workers: cfg.Workers,
		Launch: launch.Options{Logger: cfg.Log},
	}).Open(ctx)
}

// ownEnvironment is this process's, but for the handshake with its own host and its directory for temporary files: the plugin gets ones of
// its own.
func ownEnvironment() map[string]string {
	env := make(map[string]string)
	for _, e := range os.Environ() {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "PLUGIN_") && !strings.HasPrefix(name, "SLIPWAY_PLUGIN") && name != "TMPDIR" {
			env[name] = value
		}
	}
	return env
}

// runtime has the workers of another one, broken.
type runtime struct {
	sdk.Runtime
	name  string
	peers *peers // nil: workers can do what the plugin's own can, and nothing besides

	mu      sync.Mutex
	workers map[string]sdk.Worker // one for each name: a mutant may remember things
}

func (r *runtime) Worker(name string) (sdk.Worker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w, ok := r.workers[name]; ok {
		return w, nil
	}
	good, err := r.Runtime.Worker(name)
	if err != nil {
		return nil, err
	}
	which := r.name
	if which == ByName || which == ByNameWithExtras {
		which = name
	}
	if r.peers != nil {
		good = &peered{Worker: &provided{Worker: good}, all: r.peers}
	}
	w := sdk.Worker(&broken{Worker: good})
	if m, ok := Find(which); ok && !m.Near && m.wire == nil {
		w = m.breaks(good)
	}
	r.workers[name] = w
	return w, nil
}

// near gives rt with all its workers broken on this side of the wire.
func (m Mutant) near(rt sdk.Runtime) sdk.Runtime {
	if m.runtime != nil {
		return m.runtime(rt)
	}
	return &nearRuntime{Runtime: rt, breaks: m.breaks}
}

type nearRuntime struct {
	sdk.Runtime
	breaks func(sdk.Worker) sdk.Worker
}

func (r *nearRuntime) Worker(name string) (sdk.Worker, error) {
	w, err := r.Runtime.Worker(name)
	if err != nil {
		return nil, err
	}
	return r.breaks(w), nil
}
