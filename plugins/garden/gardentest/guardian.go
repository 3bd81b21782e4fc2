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

	"golang.org/x/sys/unix"
)

// tagFile is in the directory of servers with guardian: the letter in the names of what it makes outside of that directory.
const tagFile = "guardian-tag"

// guardian is what belongs to a guardian beyond its process and its namespaces.
type guardian struct {
	tag   string
	taken net.Listener // holds the tag while the test lives
}

// findGuardian looks for the programs where testserver/guardian/build.sh keeps them.
func findGuardian(t testing.TB, checkout string) (dir string) {
	t.Helper()
	needs(t, "guardian", "iptables", "iptables-restore", "ip", "unshare", "nsenter")
	return built(t, checkout, "guardian", "gdn", "go.mod", "go.sum", "build.sh", "../once.sh")
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

func (s *Servers) startGuardian(ctx context.Context) (*process, error) {
	if s.guardian == nil {
		g := &guardian{}
		var err error
		if g.tag, g.taken, err = takeTag(); err != nil {
			return nil, err
		}
		s.guardian = g
		if err := os.WriteFile(filepath.Join(s.Dir, tagFile), []byte(g.tag), 0o600); err != nil {
			return nil, err
		}
	}
	if err := s.holdNamespaces(ctx, "garden/depot", "garden/consoles", "garden/assets"); err != nil {
		return nil, err
	}
	in := func(name string) string { return filepath.Join(s.Dir, "garden", name) }
	bin := func(name string) string { return filepath.Join(s.programs.guardian, name) }
	path := func(name string) string { p, _ := exec.LookPath(name); return p } // findGuardian has looked
	most := 100
	if s.options.MaxContainers != 0 {
		most = s.options.MaxContainers
	}
	return s.startInNamespaces(
		bin("gdn"), "--config", "/dev/null", "server", "--bind-socket="+filepath.Join(s.Dir, "garden.sock"), "--tag="+s.guardian.tag,
		"--depot="+in("depot"), "--properties-path="+in("properties.json"), "--port-pool-properties-path="+in("ports.json"),
		"--console-sockets-path="+in("consoles"), "--assets-dir="+in("assets"),
		"--dadoo-bin="+bin("dadoo"), "--nstar-bin="+bin("nstar"), "--init-bin="+bin("init"), "--tar-bin="+path("tar"),
		"--iptables-bin="+path("iptables"), "--iptables-restore-bin="+path("iptables-restore"), "--runtime-plugin="+path("runc"), "--no-image-plugin",
		"--network-pool=10.253.0.0/22", "--external-ip=127.0.0.1", "--mtu=1500", "--dns-server=127.0.0.1",
		"--max-containers="+strconv.Itoa(most), "--log-level=info", "--debug-bind-ip=127.0.0.1")
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
	dirs, err := cgroups("garden-" + string(tag))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := removeCgroup(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// cgroups gives where a server that was started from here may have made cgroups of a name: in each hierarchy, below its root and below this process's own.
func cgroups(name string) ([]string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*")
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, h := range append(hierarchies, "/sys/fs/cgroup") {
		dirs = append(dirs, filepath.Join(h, name))
		for line := range strings.Lines(string(own)) {
			if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 && parts[2] != "/" {
				dirs = append(dirs, filepath.Join(h, parts[2], name))
			}
		}
	}
	return dirs, nil
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
