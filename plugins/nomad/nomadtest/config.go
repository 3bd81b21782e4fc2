//go:build linux

package nomadtest

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// ports of one agent, all on 127.0.0.1.
type ports struct {
	HTTP int `json:"http"`
	RPC  int `json:"rpc"`
	Serf int `json:"serf"` // over UDP too
}

// Where agents have their ports: below those that Nomad gives to tasks, and that systems give to whoever asks for any. An agent that is started again must not
// find that somebody has got its own meanwhile.
const firstPort, endOfPorts = 10_000, 20_000

// freePorts chooses three ports that nobody listens on, and claims them. Only programs that know nothing of claims may take one before the agent does, or
// while it is down.
func freePorts() (p ports, claims []net.Listener, err error) {
	for _, to := range []*int{&p.HTTP, &p.RPC, &p.Serf} {
		for try := 1; *to == 0; try++ {
			port := firstPort + rand.IntN(endOfPorts-firstPort)
			c, err := claim(port)
			if err == nil {
				*to, claims = port, append(claims, c)
			} else if try == 100 {
				for _, c := range claims {
					c.Close()
				}
				return ports{}, nil, err
			}
		}
	}
	return p, claims, nil
}

// claim keeps a port that nobody listens on from the agents of all other tests, also while its own is down: by a socket that has the port's number for its
// name and no file, and so goes with whoever holds it.
func claim(port int) (net.Listener, error) {
	c, err := net.Listen("unix", fmt.Sprintf("@%s%d", dirPrefix, port))
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", local(port))
	if err != nil {
		c.Close()
		return nil, err
	}
	l.Close()
	return c, nil
}

// free tells whether all of them can be bound now.
func (p ports) free() bool {
	for _, port := range []int{p.HTTP, p.RPC, p.Serf} {
		l, err := net.Listen("tcp", local(port))
		if err != nil {
			return false
		}
		l.Close()
	}
	u, err := net.ListenPacket("udp", local(p.Serf))
	if err != nil {
		return false
	}
	u.Close()
	return true
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

type object map[string]any

// configure writes the agent's configuration files: what it keeps is on disk, and it asks nothing of the network.
func (a *Agent) configure(o Options) error {
	conf := object{
		"data_dir":  filepath.Join(a.dir, "data"),
		"bind_addr": "127.0.0.1",
		"ports":     a.ports,
		"advertise": object{"http": local(a.ports.HTTP), "rpc": local(a.ports.RPC), "serf": local(a.ports.Serf)},
		"consul":    object{"auto_advertise": false, "client_auto_join": false, "server_auto_join": false},
		"limits":    object{"http_max_conns_per_client": o.MaxConnsPerClient},

		"log_level":                   "INFO",
		"leave_on_interrupt":          false,
		"leave_on_terminate":          false,
		"disable_update_check":        true,
		"disable_anonymous_signature": true,
	}
	if a.role != working {
		// A machine that stands still for a while has lost no node. Tests that want one lost say when.
		conf["server"] = object{"enabled": true, "bootstrap_expect": 1, "heartbeat_grace": "1h"}
	}
	if a.role != serving {
		client, err := a.clientConfig(o)
		if err != nil {
			return err
		}
		conf["client"], conf["plugin"] = client, a.plugins(o)
	}
	if o.ACL {
		conf["acl"] = object{"enabled": true}
	}
	if o.TLS != nil {
		cert, key := o.TLS.agent(a.role)
		conf["tls"] = object{
			"http": true, "rpc": true, "verify_server_hostname": true, "verify_https_client": true,
			"ca_file": o.TLS.CA, "cert_file": cert, "key_file": key,
		}
	}
	text, err := json.MarshalIndent(conf, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(a.dir, "agent.json"), text, 0o600); err != nil {
		return err
	}
	return a.SetHCL(o.HCL)
}

// SetHCL replaces Options.HCL from the agent's next start on.
func (a *Agent) SetHCL(text string) error {
	return os.WriteFile(filepath.Join(a.dir, "more.hcl"), []byte(text), 0o600)
}

// clientConfig is for the agent's node.
func (a *Agent) clientConfig(o Options) (object, error) {
	client := object{
		"enabled":           true,
		"network_interface": "lo",
		"options": object{
			"driver.allowlist": a.drivers(),
			// Those of clouds would ask the network who they are.
			"fingerprint.denylist": "bridge,cni,plugins_cni,consul,vault,env_aws,env_azure,env_digitalocean,env_gce",
			"user.denylist":        "", // tasks may be root, as in a container
		},
	}
	if a.servers != "" {
		client["servers"] = []string{a.servers}
	}
	if o.ChrootEnv != nil {
		client["chroot_env"] = o.ChrootEnv
	}
	if o.GCMaxAllocs > 0 {
		client["gc_max_allocs"] = o.GCMaxAllocs
	}
	if o.GCInterval > 0 {
		client["gc_interval"] = o.GCInterval.String()
	}
	volumes := object{}
	for _, name := range o.HostVolumes {
		dir := a.HostVolume(name)
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			return nil, err
		}
		volumes[name] = object{"path": dir}
	}
	if len(volumes) > 0 {
		client["host_volume"] = volumes
	}
	return client, nil
}

// plugins are the drivers' settings.
func (a *Agent) plugins(o Options) object {
	all := object{"raw_exec": object{"config": object{"enabled": true}}}
	if a.docker != nil {
		all["docker"] = object{"config": object{
			"endpoint": "unix://" + a.docker.socket(), "allow_privileged": o.Privileged,
			"volumes": object{"enabled": true},
			"gc":      object{"image": false, "dangling_containers": object{"enabled": false}}, // an image that goes cannot be pulled
		}}
	}
	return all
}

// drivers are those that the agent looks for. A Docker that this machine happens to run is none of its business.
func (a *Agent) drivers() string {
	if a.docker == nil {
		return "exec,raw_exec"
	}
	return "exec,raw_exec,docker"
}

// BusyboxRoot makes a tree with a static busybox and its applets below dir, which need not exist, and returns the map that puts it into a chroot: what
// Options.ChrootEnv is without a choice, and something to add files to. It is a copy of this machine's busybox, as Nomad makes hard links to what it is
// given, and the task's root could change that. dir is the caller's to remove, after the agent has ended.
func BusyboxRoot(dir string) (map[string]string, error) {
	const advice = "install Debian's busybox-static (make deps does)"
	from, err := exec.LookPath("busybox")
	if err != nil {
		return nil, fmt.Errorf("the chroot of exec tasks needs a busybox: %w; %s", err, advice)
	}
	if static, err := isStatic(from); err != nil || !static {
		return nil, errors.Join(fmt.Errorf("%s is not a static program, as a chroot needs it; %s", from, advice), err)
	}
	applets, err := exec.Command(from, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --list: %w", from, err)
	}
	bin, etc := filepath.Join(dir, "bin"), filepath.Join(dir, "etc")
	for _, d := range []string{bin, etc} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	if err := copyFile(from, filepath.Join(bin, "busybox")); err != nil {
		return nil, err
	}
	for _, name := range strings.Fields(string(applets)) {
		if name == "busybox" {
			continue
		}
		if err := os.Symlink("busybox", filepath.Join(bin, name)); err != nil {
			return nil, err
		}
	}
	for name, text := range map[string]string{
		"passwd": "root:x:0:0:root:/:/bin/sh\n" + ContainerRoot + ":x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
		"group":  "root:x:0:\nnogroup:x:65534:\n",
	} {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return map[string]string{bin: "/bin", etc: "/etc"}, nil
}

func isStatic(path string) (bool, error) {
	f, err := elf.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false, nil
		}
	}
	return true, nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
