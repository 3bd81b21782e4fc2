//go:build linux

package nomadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Image is the image that an agent's Docker has: BusyboxRoot's files, and the user root. Nothing can be pulled.
const Image = "slipway.test/busybox:1"

// docker is a Docker daemon of an agent's own, and the containerd beneath it. All they have is below the agent's directory, but for a bridge, the
// containers' control groups, and the sockets that containerd's shims put in /run/containerd/s.
type docker struct {
	dir                string
	containerd, daemon *process
	http               *http.Client
}

// What the two say, at Debian's versions, when they serve.
const (
	markContainerd = "containerd successfully booted"
	markDocker     = "API listen on"
)

// dockerPrograms are what Debian's docker.io has.
func dockerPrograms() (containerd, dockerd string, err error) {
	for name, to := range map[string]*string{"containerd": &containerd, "dockerd": &dockerd} {
		if *to, err = exec.LookPath(name); err != nil {
			if *to, err = exec.LookPath(filepath.Join("/usr/sbin", name)); err != nil { // not in everybody's PATH
				return "", "", fmt.Errorf("an agent with Docker needs %s: install Debian's docker.io (make deps does)", name)
			}
		}
	}
	return containerd, dockerd, nil
}

// startDocker starts both and waits until they serve. What it has started it ends again if it fails.
func startDocker(ctx context.Context, s *site) (*docker, error) {
	containerd, dockerd, err := dockerPrograms()
	if err != nil {
		return nil, err
	}
	d := &docker{dir: filepath.Join(s.dir, "docker")}
	if err := d.configure(s); err != nil {
		return nil, err
	}
	if err := s.makeBridge(); err != nil {
		return nil, fmt.Errorf("make the bridge %s: %w", s.bridge(), err)
	}
	d.containerd, err = start(s.dir, "containerd", containerd, []string{"--config", d.path("containerd.toml")}, markContainerd)
	if err == nil {
		err = d.containerd.await(ctx, markContainerd)
	}
	if err == nil {
		d.daemon, err = start(s.dir, "dockerd", dockerd, []string{"--config-file", d.path("dockerd.json")}, markDocker)
	}
	if err == nil {
		err = d.daemon.await(ctx, markDocker)
	}
	if err != nil {
		d.kill()
		return nil, err
	}
	d.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, "unix", d.socket())
	}}}
	return d, nil
}

func (d *docker) path(name string) string { return filepath.Join(d.dir, name) }
func (d *docker) socket() string          { return d.path("docker.sock") }

// configure writes both programs' files. Neither reads any of this machine's, and neither touches its firewall: containers reach the machine, and nothing else.
func (d *docker) configure(s *site) error {
	if err := os.Mkdir(d.dir, 0o711); err != nil {
		return err
	}
	// The plugin opt makes a directory in /opt; the others are for Kubernetes and for file systems that are not needed.
	text := fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = %q
`, d.path("containerd"), d.path("containerd-state"), d.path("containerd.sock"))
	if err := os.WriteFile(d.path("containerd.toml"), []byte(text), 0o600); err != nil {
		return err
	}
	conf := object{
		"data-root": d.path("data"), "exec-root": d.path("exec"), "pidfile": d.path("dockerd.pid"), "hosts": []string{"unix://" + d.socket()},
		"containerd": d.path("containerd.sock"), "deprecated-key-path": d.path("key.json"),
		"bridge": s.bridge(), "iptables": false, "ip-forward": false, "ip-masq": false,
		"exec-opts": []string{"native.cgroupdriver=cgroupfs"}, "cgroup-parent": "/" + s.name(),
		"storage-driver": "overlay2", "oom-score-adjust": 0, "shutdown-timeout": 5,
	}
	daemon, err := json.MarshalIndent(conf, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(d.path("dockerd.json"), daemon, 0o600)
}

// importImage makes an image of an archive of files. changes are lines of a Dockerfile, such as "ENV A=b".
func (d *docker) importImage(ctx context.Context, ref string, archive io.Reader, changes ...string) error {
	q := url.Values{"fromSrc": {"-"}, "repo": {ref}, "changes": changes}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://docker/images/create?"+q.Encode(), archive)
	if err != nil {
		return err
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return fmt.Errorf("import image %s: %w", ref, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return fmt.Errorf("import image %s: dockerd answers %s: %s", ref, resp.Status, text)
	}
	for dec := json.NewDecoder(resp.Body); ; { // an error of the work itself comes after the status
		var line struct {
			Error string `json:"error"`
		}
		switch err := dec.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("import image %s: dockerd's answer: %w", ref, err)
		case line.Error != "":
			return fmt.Errorf("import image %s: %s", ref, line.Error)
		}
	}
}

// stop ends dockerd, which ends its containers, and then containerd; what does not end in order is killed.
func (d *docker) stop(ctx context.Context) error {
	var errs []error
	for _, p := range []*process{d.daemon, d.containerd} {
		asking, cancel := context.WithTimeout(ctx, 2*askLimit)
		if err := p.stop(asking); err != nil {
			errs = append(errs, err)
			p.kill()
		}
		cancel()
	}
	d.http.CloseIdleConnections()
	return errors.Join(errs...)
}

func (d *docker) kill() {
	for _, p := range []*process{d.daemon, d.containerd} {
		if p != nil {
			p.kill()
		}
	}
	if d.http != nil {
		d.http.CloseIdleConnections()
	}
}

// DockerSocket returns the path of the Docker daemon's socket, for an agent with Options.Docker.
func (a *Agent) DockerSocket() string { return a.docker.socket() }

// ImportImage gives an agent with Options.Docker an image of one layer with a tar archive's files. ref has a tag other than latest, for Nomad would
// try to pull that one anew. changes are lines of a Dockerfile: ENV, USER, WORKDIR, ENTRYPOINT, CMD.
func (a *Agent) ImportImage(ctx context.Context, ref string, archive io.Reader, changes ...string) error {
	return a.docker.importImage(ctx, ref, archive, changes...)
}

// BusyboxArchive writes a tar archive of BusyboxRoot's files, a directory /tmp for everybody, and files with what they hold by their absolute path.
func BusyboxArchive(w io.Writer, files map[string]string) error {
	dir, err := os.MkdirTemp("", "slipway-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root := filepath.Join(dir, "root")
	if _, err := BusyboxRoot(root); err != nil {
		return err
	}
	return archive(w, root, files, time.Unix(1e9, 0))
}
