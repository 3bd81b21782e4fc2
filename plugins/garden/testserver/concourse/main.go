// Command concourse is the Garden server of a Concourse worker and nothing else of it, wired as package workercmd does: it starts a containerd, and
// serves Concourse's backend on it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	stdruntime "runtime"
	"syscall"
	"time"

	"code.cloudfoundry.org/garden/server"
	"code.cloudfoundry.org/lager"
	"github.com/concourse/concourse/worker/runtime"
	"github.com/concourse/concourse/worker/runtime/libcontainerd"
)

const (
	namespace      = "concourse"      // of containerd
	requestTimeout = 5 * time.Minute  // as a worker has it
	readyLimit     = 30 * time.Second // for containerd; a worker gives it 10 seconds
)

// config is what a worker writes for its containerd.
const config = `version = 2
oom_score = -999
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs"]
`

type settings struct {
	listen, dir, cni, init, subnet, dns string
	most                                int
}

func main() {
	var s settings
	flag.StringVar(&s.listen, "listen", "", "unix socket to serve Garden on")
	flag.StringVar(&s.dir, "dir", "", "where all state is kept")
	flag.StringVar(&s.cni, "cni", "", "directory of the CNI plugins")
	flag.StringVar(&s.init, "init", "", "process 1 of containers")
	flag.StringVar(&s.subnet, "subnet", runtime.DefaultCNINetworkConfig.Subnet, "network of the containers")
	flag.StringVar(&s.dns, "dns", "127.0.0.1", "name server of the containers")
	flag.IntVar(&s.most, "max-containers", 250, "how many there may be")
	flag.Parse()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(s settings) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	address := filepath.Join(s.dir, "containerd.sock")
	containerd, err := startContainerd(s.dir, address)
	if err != nil {
		return fmt.Errorf("containerd: %w", err)
	}
	defer containerd.stop()
	if err := containerd.await(address); err != nil {
		return fmt.Errorf("containerd: %w", err)
	}
	backend, err := newBackend(s, address)
	if err != nil {
		return err
	}
	if err := backend.Start(); err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	logger := lager.NewLogger("garden")
	logger.RegisterSink(lager.NewWriterSink(os.Stderr, lager.INFO))
	garden := server.New("unix", s.listen, 0, &backend, logger)
	if err := garden.SetupBomberman(); err != nil {
		return err
	}
	if err := os.Remove(s.listen); err != nil && !errors.Is(err, os.ErrNotExist) { // of a run that was killed
		return err
	}
	l, err := net.Listen("unix", s.listen)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- garden.Serve(l) }()
	select {
	case <-signals:
		garden.Stop()
		return nil
	case err := <-served:
		return err
	case err := <-containerd.ended:
		containerd.ended <- err
		return fmt.Errorf("containerd has ended: %w", err)
	}
}

func newBackend(s settings, address string) (runtime.GardenBackend, error) {
	network := runtime.DefaultCNINetworkConfig
	network.Subnet, network.MTU = s.subnet, 1500
	cni, err := runtime.NewCNINetwork(
		runtime.WithCNIBinariesDir(s.cni), runtime.WithCNIFileStore(runtime.FileStoreWithWorkDir(s.dir)),
		runtime.WithNameServers([]string{s.dns}), runtime.WithCNINetworkConfig(network),
	)
	if err != nil {
		return runtime.GardenBackend{}, fmt.Errorf("network: %w", err)
	}
	return runtime.NewGardenBackend(libcontainerd.New(address, namespace, requestTimeout),
		runtime.WithNetwork(cni), runtime.WithRequestTimeout(requestTimeout), runtime.WithMaxContainers(s.most), runtime.WithInitBinPath(s.init))
}

// containerdProcess ends with this program, as a worker's does. The containers' own shims do not.
type containerdProcess struct {
	cmd   *exec.Cmd
	ended chan error
}

func startContainerd(dir, address string) (*containerdProcess, error) {
	path := filepath.Join(dir, "containerd.toml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("containerd", "--address="+address, "--config="+path,
		"--root="+filepath.Join(dir, "containerd"), "--state="+filepath.Join(dir, "state"), "--log-level=warn")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p := &containerdProcess{cmd: cmd, ended: make(chan error, 1)}
	started := make(chan error)
	go func() {
		// The signal comes when the thread ends that started it, so this one is kept until it has ended.
		stdruntime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// await waits until containerd answers.
func (p *containerdProcess) await(address string) error {
	var last error
	for late := time.After(readyLimit); ; {
		client := libcontainerd.New(address, namespace, requestTimeout)
		if last = client.Init(); last == nil {
			return client.Stop()
		}
		select {
		case err := <-p.ended:
			p.ended <- err
			return fmt.Errorf("it has ended: %w", err)
		case <-late:
			return fmt.Errorf("it is not ready after %s: %w", readyLimit, last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p *containerdProcess) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	<-p.ended
}
