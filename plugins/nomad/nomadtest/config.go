//go:build linux

package nomadtest

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// freePorts chooses three ports that nobody listens on. Another program may take one before the agent does.
func freePorts() (ports, error) {
	var chosen [3]int
	for i := range chosen {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports{}, err
		}
		defer l.Close() // all three are held until all are chosen, so that they differ
		chosen[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports{HTTP: chosen[0], RPC: chosen[1], Serf: chosen[2]}, nil
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

// configure writes the agent's configuration files: one node that is its own server, keeps its state on disk, and asks nothing of the network.
func (a *Agent) configure(o Options) error {
	client := object{
		"enabled":           true,
		"network_interface": "lo",
		"options": object{
			"driver.allowlist": "exec,raw_exec",
			// Those of clouds would ask the network who they are.
			"fingerprint.denylist": "bridge,cni,plugins_cni,consul,vault,env_aws,env_azure,env_digitalocean,env_gce",
			"user.denylist":        "", // tasks may be root, as in a container
		},
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
	conf := object{
		"data_dir":  filepath.Join(a.dir, "data"),
		"bind_addr": "127.0.0.1",
		"ports":     a.ports,
		"advertise": object{"http": local(a.ports.HTTP), "rpc": local(a.ports.RPC), "serf": local(a.ports.Serf)},
		"server":    object{"enabled": true, "bootstrap_expect": 1},
		"client":    client,
		"plugin":    object{"raw_exec": object{"config": object{"enabled": true}}},
		"consul":    object{"auto_advertise": false, "client_auto_join": false, "server_auto_join": false},
		"limits":    object{"http_max_conns_per_client": o.MaxConnsPerClient},

		"log_level":                   "INFO",
		"leave_on_interrupt":          false,
		"leave_on_terminate":          false,
		"disable_update_check":        true,
		"disable_anonymous_signature": true,
	}
	text, err := json.MarshalIndent(conf, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(a.dir, "agent.json"), text, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.dir, "more.hcl"), []byte(o.HCL), 0o600)
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
