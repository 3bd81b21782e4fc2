package nomad

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// StoreConfig is the block "store": where a node keeps volumes, and how the program slipway-store gets there.
type StoreConfig struct {
	HostVolume string    `json:"host_volume" required:"true" doc:"Name of the host volume, of each node, that volumes are kept in. It must be writable."`
	Driver     string    `json:"driver" oneof:"docker,exec,raw_exec" doc:"Nomad's task driver for the store. Empty: that of containers. With exec, root must not be on the driver's user.denylist."`
	Image      string    `json:"image" doc:"Docker image of the store, which needs nothing of it. Empty: that of containers that name none."`
	Path       string    `json:"path" doc:"Path of the program slipway-store on every node. Empty: nodes fetch it from the plugin at shim_address."`
	Program    string    `json:"program" doc:"Path of that program where the plugin runs. Empty: slipway-store-linux-ARCHITECTURE beside the plugin."`
	Port       int64     `json:"port" doc:"Port of nodes where stores listen for the plugin and for each other. Zero: one that Nomad chooses."`
	Zone       string    `json:"zone" doc:"Stores of one zone send volumes to each other. Empty: the region's name. Clusters whose nodes do not reach each other must not have the same."`
	CPU        int64     `json:"cpu" default:"100" doc:"Thousandths of a core that Nomad reserves for a store."`
	Memory     sdk.Bytes `json:"memory" default:"256MiB" doc:"Memory that a store may take."`
}

// checkStore fills in what the block leaves out and finds what cannot work.
func (c Config) checkStore(bad func(string, ...any) (Config, error)) (Config, error) {
	if c.Store == nil {
		return c, nil
	}
	s := *c.Store
	s.Driver, s.Image, s.Zone = cmp.Or(s.Driver, c.Driver), cmp.Or(s.Image, c.Image), cmp.Or(s.Zone, c.Region, "global")
	s.CPU, s.Memory = cmp.Or(s.CPU, 100), cmp.Or(s.Memory, 256<<20)
	switch {
	case s.HostVolume == "":
		return bad("store: host_volume is missing: it names the host volume of nodes that volumes are kept in")
	case s.Driver == "docker" && s.Image == "":
		return bad("store: image is missing: docker needs one, such as busybox:1.36; the store uses nothing of it")
	case s.Driver != "docker" && c.Store.Image != "":
		return bad("store: image means nothing to the driver %s; take it away", s.Driver)
	case s.Port < 0 || s.Port > 65535:
		return bad("store: port %d is none", s.Port)
	case s.CPU < 0 || s.Memory < 0:
		return bad("store: cpu and memory must be more than zero")
	case s.Path != "" && s.Program != "":
		return bad("store: path says that nodes have the program; take program away")
	case s.Path != "" && (!path.IsAbs(s.Path) || path.Clean(s.Path) != s.Path):
		return bad("store: path %q must be a clean absolute path on the nodes", s.Path)
	}
	if s.Path == "" {
		var err error
		if s.Program, err = c.beside(s.Program, "slipway-store"); err != nil {
			return bad("store: %v", err)
		}
	}
	c.Store = &s
	return c, nil
}

// fetches tells whether nodes get programs from the plugin.
func (c Config) fetches() bool { return c.ShimPath == "" || c.Store != nil && c.Store.Path == "" }

// checkPrograms finds out where the programs are that nodes need, and how they get there.
func (c Config) checkPrograms(bad func(string, ...any) (Config, error)) (Config, error) {
	if c.ShimPath != "" {
		if !path.IsAbs(c.ShimPath) || path.Clean(c.ShimPath) != c.ShimPath {
			return bad("shim_path %q must be a clean absolute path on the nodes", c.ShimPath)
		}
		if c.Shim != "" {
			return bad("shim_path says that nodes have the program; take shim away")
		}
	}
	if !c.fetches() {
		if c.Serve != "" || c.Listen != "" {
			return bad("nodes have all programs; take shim_listen and shim_address away")
		}
		return c, nil
	}
	if c.Listen == "" || c.Serve == "" {
		return bad("nodes need the program %s: set %s to where it is on each, or shim_listen and shim_address to have the plugin serve it", c.lacking()[0], c.lacking()[1])
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return bad("shim_listen %q must be HOST:PORT or :PORT", c.Listen)
	}
	if u, err := url.Parse(c.Serve); err != nil || u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return bad("shim_address %q must be http://HOST:PORT", c.Serve)
	}
	if c.ShimPath == "" {
		var err error
		if c.Shim, err = c.beside(c.Shim, "slipway-shim"); err != nil {
			return bad("%v", err)
		}
	}
	return c, nil
}

// lacking names a program that nodes do not have, and the setting that would say where it is.
func (c Config) lacking() [2]string {
	if c.ShimPath == "" {
		return [2]string{"slipway-shim", "shim_path"}
	}
	return [2]string{"slipway-store", "path of store"}
}

// beside finds a program for nodes: the one that is set, or the one beside the plugin.
func (c Config) beside(set, name string) (string, error) {
	if set == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("say where %s is: this program does not know its own place: %w", name, err)
		}
		set = filepath.Join(filepath.Dir(self), name+"-linux-"+c.Architecture)
	}
	if info, err := os.Stat(set); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("there is no program %s; say where %s for %s is (make build makes it)", set, name, c.Architecture)
	}
	return set, nil
}

// shareStores refuses blocks that keep volumes in the same place and would not have one store for it.
func shareStores(pools []*pool) error {
	apart := func(a, b string) bool { return a != "" && b != "" && a != b }
	for i, p := range pools {
		for _, q := range pools[:i] {
			a, b := p.c, q.c
			if a.Store == nil || b.Store == nil || a.Address != b.Address || a.Region != b.Region || a.Store.HostVolume != b.Store.HostVolume ||
				apart(a.Pool, b.Pool) || apart(a.Class, b.Class) {
				continue
			}
			if p.storeJobID() != q.storeJobID() || a.Namespace != b.Namespace {
				return sdk.NewInvalid(sdk.ReasonConfig, "worker %q: store: it keeps volumes in the host volume %q of nodes that worker %q may have, too, but not with the same namespace, pool and class: "+
					"make these the same, or name another host volume", p.name, a.Store.HostVolume, q.name)
			}
			if *a.Store != *b.Store {
				return sdk.NewInvalid(sdk.ReasonConfig, "worker %q: store: it is the one of worker %q, and has other settings; make all of the two blocks the same, image and driver, too", p.name, q.name)
			}
		}
	}
	return nil
}
