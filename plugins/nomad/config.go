package nomad

import (
	"fmt"
	"net/url"
	"path"

	"github.com/slipway-run/slipway/sdk"
)

// Config is a worker block: the nodes of one pool.
type Config struct {
	Address   string `json:"address" required:"true" doc:"URL of the cluster's HTTP API, such as http://10.0.0.1:4646, or unix:///PATH of an agent's socket."`
	Region    string `json:"region" doc:"Region of the nodes. Empty: the agent's own."`
	Namespace string `json:"namespace" default:"default" doc:"Namespace of all jobs that are made."`
	Token     string `json:"token" sensitive:"true" doc:"ACL token."`
	TokenFile string `json:"token_file" doc:"File with the ACL token, read again when it changes."`

	CACert        string `json:"ca_cert" doc:"File with the certificates that the API's is checked against."`
	ClientCert    string `json:"client_cert" doc:"File with the plugin's own certificate, with client_key."`
	ClientKey     string `json:"client_key" doc:"File with its key."`
	TLSServerName string `json:"tls_server_name" doc:"Name to expect in the API's certificate."`

	Pool     string   `json:"pool" doc:"Node pool whose nodes become workers. Empty: those of every pool."`
	Class    string   `json:"class" doc:"Only nodes of this class."`
	Filter   string   `json:"filter" doc:"Only nodes that this is true of: a filter expression of Nomad's API, such as Meta.rack == \"r1\"."`
	TagsFrom []string `json:"tags_from" doc:"What gives workers their tags: class, pool, or meta.KEY, a key of the nodes' meta with names and commas between them."`
	TeamFrom string   `json:"team_from" doc:"What gives a worker its team: class, pool or meta.KEY. Where that is empty the node is for all."`

	Driver       string `json:"driver" default:"docker" oneof:"docker,exec,raw_exec" doc:"Nomad's task driver. raw_exec isolates nothing: for development only."`
	Image        string `json:"image" doc:"Docker image of containers that name none."`
	User         string `json:"user" doc:"User of the shim in a container: root where the driver lets it be. Empty: root for docker, the agent's own for raw_exec, nobody for exec."`
	Privileged   string `json:"privileged" default:"deny" oneof:"deny,allow" doc:"Whether privileged containers may be made; docker alone has them, and Nomad must allow them, too."`
	Architecture string `json:"architecture" default:"amd64" oneof:"amd64,arm64" doc:"Of the nodes."`

	ShimPath string `json:"shim_path" doc:"Path of the program slipway-shim on every node. Empty: nodes fetch it from the plugin at shim_address."`
	Shim     string `json:"shim" doc:"Path of that program where the plugin runs. Empty: slipway-shim-linux-ARCHITECTURE beside the plugin."`
	Listen   string `json:"shim_listen" doc:"Address where the plugin serves programs to nodes, such as :4650."`
	Serve    string `json:"shim_address" doc:"URL at which nodes reach shim_listen, such as http://10.0.0.9:4650."`

	CPU    int64     `json:"cpu" default:"100" doc:"Thousandths of a core that containers get which ask for none."`
	Memory sdk.Bytes `json:"memory" default:"256MiB" doc:"Memory of containers that ask for none. Nomad knows no container without a limit."`

	Store *StoreConfig `json:"store" doc:"Keeps volumes on each node. Without it there are none, and only steps without inputs and outputs can run."`

	MaxConnections int          `json:"max_connections" default:"32" doc:"Connections to one agent at a time. An agent refuses more than its http_max_conns_per_client, 100 if nothing else is set."`
	Rate           int          `json:"rate" default:"20" doc:"Containers made a second, over all nodes of the block."`
	PlaceTimeout   sdk.Duration `json:"place_timeout" default:"5s" doc:"How long a container may wait for room on its node before the host looks elsewhere."`
	StartTimeout   sdk.Duration `json:"start_timeout" default:"10m" doc:"For pulling an image and starting a container."`
	RequestTimeout sdk.Duration `json:"request_timeout" default:"30s" doc:"For an answer of the API."`
}

// check fills in what a block leaves out and finds what cannot work.
func (c Config) check(worker string) (Config, error) {
	bad := func(format string, args ...any) (Config, error) {
		return c, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: %s", worker, fmt.Sprintf(format, args...))
	}
	if u, err := url.Parse(c.Address); err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "unix" || u.Scheme != "unix" && u.Host == "" || u.Scheme == "unix" && !path.IsAbs(u.Path) {
		return bad("address %q must be http://HOST:PORT, https://HOST:PORT or unix:///PATH", c.Address)
	}
	if c.Token != "" && c.TokenFile != "" {
		return bad("token and token_file are both set; give one")
	}
	if (c.ClientCert == "") != (c.ClientKey == "") {
		return bad("client_cert and client_key belong together")
	}
	if c.Driver == "docker" && c.Image == "" {
		return bad("image is missing: docker needs one for containers that name none, such as busybox:1.36")
	}
	if c.Image != "" && c.Driver != "docker" {
		return bad("image means nothing to the driver %s; take it away", c.Driver)
	}
	if c.Privileged == "allow" && c.Driver != "docker" {
		return bad("privileged containers are docker's; take the setting away")
	}
	c, err := c.checkStore(bad)
	if err != nil {
		return c, err
	}
	if c, err = c.checkPrograms(bad); err != nil {
		return c, err
	}
	if err := c.checkTraits(bad); err != nil {
		return c, err
	}
	return c, c.checkNumbers(bad)
}

func (c Config) checkNumbers(bad func(string, ...any) (Config, error)) error {
	for name, n := range map[string]int64{"cpu": c.CPU, "memory": int64(c.Memory), "max_connections": int64(c.MaxConnections), "rate": int64(c.Rate),
		"place_timeout": int64(c.PlaceTimeout), "start_timeout": int64(c.StartTimeout), "request_timeout": int64(c.RequestTimeout)} {
		if n <= 0 {
			_, err := bad("%s must be more than zero", name)
			return err
		}
	}
	return nil
}
