package garden

import (
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// Config is a worker block.
type Config struct {
	Garden       string `json:"garden" required:"true" doc:"Address of the Garden server: tcp://HOST:PORT or unix:///PATH."`
	Baggageclaim string `json:"baggageclaim" required:"true" doc:"URL of the Baggageclaim server on the same machine, such as http://HOST:7788."`
	PeerZone     string `json:"peer_zone" doc:"Volumes stream between workers of one zone without the host, as peers says. Empty: through the host."`
	Peers        string `json:"peers" default:"servers" oneof:"servers,plugin" doc:"Who carries the bytes within a zone: servers says that each Baggageclaim server reaches the others; plugin reads from one and writes to the other, for workers of one plugin block, at less cost than the host."`

	Rootfs       string         `json:"rootfs" doc:"Path on the worker of a directory or .tgz that is the root of containers without an image. Empty: they are refused."`
	ResourceType []ResourceType `json:"resource_type" doc:"A root file system that lies on the worker; an image reference resource-type:NAME names it."`
	ImagePlugin  bool           `json:"image_plugin" doc:"The Garden server has an image plugin: image references docker://... are passed on to it. Others are not, for they may name paths of the machine."`
	Imports      []string       `json:"imports" doc:"Paths on the worker below which volumes may be imported."`
	Certs        string         `json:"certs" doc:"Directory on the worker that every container gets read-only at /etc/ssl/certs."`

	Privileged    string   `json:"privileged" default:"deny" oneof:"deny,allow" doc:"Whether privileged containers may be made."`
	AllowNetworks []string `json:"allow_networks" doc:"Networks that containers may reach, as CIDR, where the server heeds net-out rules. Empty: all, but for deny_networks."`
	DenyNetworks  []string `json:"deny_networks" doc:"Networks that containers may not reach, as CIDR, where the server heeds net-out rules."`
	Hermetic      string   `json:"hermetic" default:"probe" oneof:"probe,net-out,no" doc:"Whether a container without net-out rules has no network: probe finds out and believes only in a lone loopback; net-out says that the server drops what no rule allows; no refuses hermetic containers."`
	HTTPProxy     string   `json:"http_proxy" sensitive:"true" doc:"Value of http_proxy for processes that set none."`
	HTTPSProxy    string   `json:"https_proxy" sensitive:"true" doc:"Value of https_proxy for processes that set none."`
	NoProxy       string   `json:"no_proxy" doc:"Value of no_proxy for processes that set none."`

	MaxContainers int       `json:"max_containers" default:"250" doc:"Containers that the worker takes; further ones wait. Concourse's backend takes 250."`
	CPU           int64     `json:"cpu" default:"0" doc:"Limit of containers that ask for none, in thousandths of a core. Zero: unlimited."`
	Memory        sdk.Bytes `json:"memory" default:"0" doc:"Limit of containers that ask for none. Zero: unlimited."`
	PIDs          int64     `json:"pids" default:"0" doc:"Limit of containers that ask for none. Zero: unlimited."`

	Architecture string `json:"architecture" default:"amd64" oneof:"amd64,arm64" doc:"Of the worker's machine: Garden does not tell."`
	Shim         string `json:"shim" doc:"Path, where the plugin runs, of the program slipway-shim for the worker's architecture. Empty: slipway-shim-linux-ARCHITECTURE beside the plugin."`

	ConnectTimeout sdk.Duration `json:"connect_timeout" default:"5s" doc:"For one attempt to connect to a server."`
	RequestTimeout sdk.Duration `json:"request_timeout" default:"1m" doc:"For an answer of a server; creating and destroying containers may take as long."`
	StreamTimeout  sdk.Duration `json:"stream_timeout" default:"1m" doc:"How long a stream of a volume may stand still; one to a peer may take longer, as long as the server answers."`
	Retries        int          `json:"retries" default:"2" doc:"Further attempts of a call that could not connect to Garden."`
}

// ResourceType is a root file system on the worker.
type ResourceType struct {
	Name       string `json:"name" required:"true" doc:"What image references call it: resource-type:NAME."`
	Image      string `json:"image" required:"true" doc:"Path on the worker of a directory or .tgz."`
	Version    string `json:"version" doc:"Change it when what lies at the path changes; it is imported anew."`
	Privileged bool   `json:"privileged" doc:"Its containers must be privileged."`
}

// check fills in what a block leaves out and finds what cannot work.
func (c Config) check(worker string) (Config, error) {
	bad := func(format string, args ...any) (Config, error) {
		return c, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: %s", worker, fmt.Sprintf(format, args...))
	}
	if c.Architecture == "" {
		c.Architecture = "amd64"
	}
	if c.Shim == "" {
		self, err := os.Executable()
		if err != nil {
			return bad("set \"shim\": this program does not know its own place: %v", err)
		}
		c.Shim = filepath.Join(filepath.Dir(self), "slipway-shim-linux-"+c.Architecture)
	}
	if info, err := os.Stat(c.Shim); err != nil || !info.Mode().IsRegular() {
		return bad("there is no program %s; set \"shim\" to where slipway-shim for %s is (make build makes it)", c.Shim, c.Architecture)
	}
	if c.Peers == "plugin" && c.PeerZone == "" {
		return bad("peers = \"plugin\" says how volumes stream within a zone: set \"peer_zone\", too")
	}
	for name, p := range map[string]string{"rootfs": c.Rootfs, "certs": c.Certs} {
		if p != "" && !cleanAbsolute(p) {
			return bad("%s %q must be a clean absolute path on the worker", name, p)
		}
	}
	for _, p := range c.Imports {
		if !cleanAbsolute(p) || p == "/" {
			return bad("imports: %q must be a clean absolute path on the worker, and not all of it", p)
		}
	}
	seen := make(map[string]bool)
	for _, t := range c.ResourceType {
		if t.Name == "" || seen[t.Name] {
			return bad("resource_type %q is there twice, or has no name", t.Name)
		}
		seen[t.Name] = true
		if !cleanAbsolute(t.Image) {
			return bad("resource_type %q: image %q must be a clean absolute path on the worker", t.Name, t.Image)
		}
		if t.Privileged && c.Privileged != "allow" {
			return bad("resource_type %q is privileged: set privileged = \"allow\"", t.Name)
		}
	}
	for name, list := range map[string][]string{"allow_networks": c.AllowNetworks, "deny_networks": c.DenyNetworks} {
		for _, text := range list {
			if _, err := netip.ParsePrefix(text); err != nil {
				return bad("%s: %q is not a network such as 10.0.0.0/8", name, text)
			}
		}
	}
	for name, n := range map[string]int64{"max_containers": int64(c.MaxContainers), "cpu": c.CPU, "memory": int64(c.Memory), "pids": c.PIDs, "retries": int64(c.Retries),
		"connect_timeout": int64(c.ConnectTimeout), "request_timeout": int64(c.RequestTimeout), "stream_timeout": int64(c.StreamTimeout)} {
		if n < 0 {
			return bad("%s is negative", name)
		}
	}
	return c, nil
}

func cleanAbsolute(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && !strings.Contains(p, "\x00")
}

// resourceType gives the one of that name.
func (c Config) resourceType(name string) (ResourceType, bool) {
	for _, t := range c.ResourceType {
		if t.Name == name {
			return t, true
		}
	}
	return ResourceType{}, false
}
