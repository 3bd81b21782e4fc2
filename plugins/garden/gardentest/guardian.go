//go:build linux

package gardentest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"golang.org/x/sys/unix"
)

// tagFile is in the directory of servers with guardian: the letter in the names of what it makes outside of that directory.
const tagFile = "guardian-tag"

// guardian is what belongs to a guardian beyond its process. Network and mounts are its own, in namespaces that outlive it, so that it can be started again.
type guardian struct {
	tag    string
	taken  net.Listener // holds the tag while the test lives
	holder *process     // holds the namespaces
}

// findGuardian looks for the programs where testserver/guardian/build.sh keeps them.
func findGuardian(t testing.TB, checkout string) (dir string) {
	t.Helper()
	for _, program := range []string{"iptables", "iptables-restore", "ip", "unshare", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			testkit.Lacking(t, "%v, which guardian needs; install Debian's iptables, iproute2 and util-linux", err)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("gardentest: %v", err)
	}
	k, err := key(filepath.Join(checkout, "plugins", "garden", "testserver", "guardian"), []string{"go.mod", "go.sum", "build.sh"})
	if err != nil {
		t.Fatalf("gardentest: %v", err)
	}
	dir = filepath.Join(cache, "slipway", "garden-guardian-"+k)
	if _, err := os.Stat(filepath.Join(dir, "gdn")); err != nil {
		testkit.Lacking(t, "guardian in %s: build it with `make guardian`", dir)
	}
	return dir
}

// takeTag takes a letter that no other guardian of a test has on this machine.
func takeTag() (string, net.Listener, error) {
	var all error
	for letter := 'a'; letter <= 'z'; letter++ {
		l, err := net.Listen("unix", "@slipway-guardian-"+string(letter)) // a name that goes with its process
		if err == nil {
			return string(letter), l, nil
		}
		all = errors.Join(all, err)
	}
	return "", nil, fmt.Errorf("no letter is free for a guardian: %w", all)
}

// namespaces makes them, once. What Baggageclaim mounts below the directory shows in them, and what guardian mounts shows nowhere else.
const namespaces = `set -e
mount -t tmpfs none /run # guardian has runc keep its state in /run/runc, and nowhere else
mkdir /run/runc
mount --bind "$2" /run/runc
ip link set lo up
ip link add d0 type dummy 2>/dev/null || { ip link add d0 type veth peer name d1; ip link set d1 up; }
ip addr add 10.252.0.1/24 dev d0
ip link set d0 up
ip route add default via 10.252.0.2 dev d0
touch "$1"
exec sleep infinity`

func (s *Servers) startHolder(ctx context.Context) error {
	g := &guardian{}
	s.guardian = g
	var err error
	if g.tag, g.taken, err = takeTag(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.Dir, tagFile), []byte(g.tag), 0o600); err != nil {
		return err
	}
	if err := errors.Join(unix.Mount(s.Dir, s.Dir, "", unix.MS_BIND, ""), unix.Mount("", s.Dir, "", unix.MS_SHARED, "")); err != nil {
		return fmt.Errorf("share %s: %w", s.Dir, err)
	}
	for _, name := range []string{"garden", "garden/depot", "garden/consoles", "garden/assets", "garden/engine", "garden/engine/runc"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, name), 0o755); err != nil {
			return err
		}
	}
	made := filepath.Join(s.Dir, "namespaces-made")
	g.holder, err = start(s.Dir, "unshare", "-n", "-m", "--propagation", "slave", "sh", "-c", namespaces, "sh", made, filepath.Join(s.Dir, "garden/engine/runc"))
	if err != nil {
		return err
	}
	return g.holder.await(ctx, func(context.Context) error { _, err := os.Stat(made); return err })
}

func (s *Servers) startGuardian(ctx context.Context) (*process, error) {
	if s.guardian == nil {
		if err := s.startHolder(ctx); err != nil {
			return nil, fmt.Errorf("guardian's namespaces: %w", err)
		}
	}
	in := func(name string) string { return filepath.Join(s.Dir, "garden", name) }
	bin := func(name string) string { return filepath.Join(s.programs.guardian, name) }
	path := func(name string) string { p, _ := exec.LookPath(name); return p } // findGuardian has looked
	most := 100
	if s.options.MaxContainers != 0 {
		most = s.options.MaxContainers
	}
	return start(s.Dir, "nsenter", "-t", strconv.Itoa(s.guardian.holder.pid()), "-m", "-n", "sh", "-c", `cd "$1"; shift; exec "$@"`, "sh", s.Dir,
		bin("gdn"), "--config", "/dev/null", "server", "--bind-socket="+filepath.Join(s.Dir, "garden.sock"), "--tag="+s.guardian.tag,
		"--depot="+in("depot"), "--properties-path="+in("properties.json"), "--port-pool-properties-path="+in("ports.json"),
		"--console-sockets-path="+in("consoles"), "--assets-dir="+in("assets"),
		"--dadoo-bin="+bin("dadoo"), "--nstar-bin="+bin("nstar"), "--init-bin="+bin("init"), "--tar-bin="+path("tar"),
		"--iptables-bin="+path("iptables"), "--iptables-restore-bin="+path("iptables-restore"), "--runtime-plugin="+path("runc"), "--no-image-plugin",
		"--network-pool=10.253.0.0/22", "--external-ip=127.0.0.1", "--mtu=1500", "--dns-server=127.0.0.1",
		"--max-containers="+strconv.Itoa(most), "--log-level=info", "--debug-bind-ip=127.0.0.1")
}

// endNamespaces lets go of a guardian's namespaces and its tag.
func (s *Servers) endNamespaces() {
	if s.guardian == nil {
		return
	}
	if s.guardian.holder != nil {
		s.guardian.holder.kill()
	}
	if s.guardian.taken != nil {
		s.guardian.taken.Close()
	}
}

// clearGuardian takes away what a guardian of this directory has left elsewhere: an empty directory and its cgroups.
func clearGuardian(ctx context.Context, dir string) error {
	tag, err := os.ReadFile(filepath.Join(dir, tagFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Remove("/tmp/cgroups-" + string(tag)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*")
	if err != nil {
		return err
	}
	for _, h := range append(hierarchies, "/sys/fs/cgroup") {
		paths := []string{"/"}
		for line := range strings.Lines(string(own)) {
			if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 {
				paths = append(paths, parts[2])
			}
		}
		for _, p := range paths {
			if err := removeCgroup(ctx, filepath.Join(h, p, "garden-"+string(tag))); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeCgroup removes one with those below it, once the last process in them has ended.
func removeCgroup(ctx context.Context, dir string) error {
	below, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range below {
		if e.IsDir() {
			if err := removeCgroup(ctx, filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for {
		err := os.Remove(dir)
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond): // nothing tells of the end
		case <-ctx.Done():
			return err
		}
	}
}
