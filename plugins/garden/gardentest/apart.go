//go:build linux

package gardentest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"golang.org/x/sys/unix"
)

// Guardian and Concourse's backend change the machine's network, and keep state at places that cannot be set. So each has network and mounts of its own, in namespaces
// that outlive it, so that it can be started again. A process that sleeps holds them.

// needs skips the test unless the programs are there that a server calls.
func needs(t testing.TB, server string, all ...string) {
	t.Helper()
	for _, program := range all {
		if _, err := exec.LookPath(program); err != nil {
			testkit.Lacking(t, "%v, which %s needs; install Debian's iptables, iproute2 and util-linux, and what `make %s` installs", err, server, server)
		}
	}
}

// built gives the directory in which testserver/SERVER/build.sh keeps what it makes of the files.
func built(t testing.TB, checkout, server, program string, files ...string) (dir string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("gardentest: %v", err)
	}
	k, err := key(filepath.Join(checkout, "plugins", "garden", "testserver", server), files)
	if err != nil {
		t.Fatalf("gardentest: %v", err)
	}
	dir = filepath.Join(cache, "slipway", "garden-"+server+"-"+k)
	if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
		testkit.Lacking(t, "%s in %s: build it with `make %s`", program, dir, server)
	}
	return dir
}

// namespaces makes them, once. What Baggageclaim mounts below the directory shows in them, and what the server mounts shows nowhere else.
const namespaces = `set -e
mount -t tmpfs none /run
mount -t tmpfs none /var/lib # CNI keeps in /var/lib/cni which addresses are given out
mkdir -p /run/runc /run/containerd/runc/concourse # where guardian and containerd have runc keep its state, and nowhere else
mount --bind "$2" /run/runc
mount --bind "$2" /run/containerd/runc/concourse
ip link set lo up
ip link add d0 type dummy 2>/dev/null || { ip link add d0 type veth peer name d1; ip link set d1 up; }
ip addr add 10.252.0.1/24 dev d0
ip link set d0 up
ip route add default via 10.252.0.2 dev d0
touch "$1"
exec sleep infinity`

// holdNamespaces makes the namespaces and directories of a server, unless they are there.
func (s *Servers) holdNamespaces(ctx context.Context, dirs ...string) error {
	if s.holder != nil {
		return nil
	}
	if err := errors.Join(unix.Mount(s.Dir, s.Dir, "", unix.MS_BIND, ""), unix.Mount("", s.Dir, "", unix.MS_SHARED, "")); err != nil {
		return fmt.Errorf("share %s: %w", s.Dir, err)
	}
	for _, name := range append([]string{"garden", "garden/engine", "garden/engine/runc"}, dirs...) {
		if err := os.MkdirAll(filepath.Join(s.Dir, name), 0o755); err != nil {
			return err
		}
	}
	made := filepath.Join(s.Dir, "namespaces-made")
	var err error
	s.holder, err = start(s.Dir, "unshare", "-n", "-m", "--propagation", "slave", "sh", "-c", namespaces, "sh", made, filepath.Join(s.Dir, "garden/engine/runc"))
	if err != nil {
		return err
	}
	if err := s.holder.await(ctx, func(context.Context) error { _, err := os.Stat(made); return err }); err != nil {
		return fmt.Errorf("namespaces of the server's own: %w", err)
	}
	return nil
}

func (s *Servers) startInNamespaces(command ...string) (*process, error) {
	return start(s.Dir, "nsenter", append([]string{"-t", strconv.Itoa(s.holder.pid()), "-m", "-n", "sh", "-c", `cd "$1"; shift; exec "$@"`, "sh", s.Dir}, command...)...)
}

// endNamespaces lets go of a server's namespaces, and of a guardian's tag.
func (s *Servers) endNamespaces() {
	if s.holder != nil {
		s.holder.kill()
	}
	if s.guardian != nil {
		s.guardian.taken.Close()
	}
}
