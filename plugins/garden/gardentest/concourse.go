//go:build linux

package gardentest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	cniDir         = "/usr/lib/cni"  // of Debian's containernetworking-plugins
	concourseState = "garden/worker" // below the directory of the servers
	concourseGroup = "garden"        // the cgroup above those of containers, which cannot be set
)

// findConcourse looks for the programs where testserver/concourse/build.sh keeps them.
func findConcourse(t testing.TB, checkout string) (dir string) {
	t.Helper()
	needs(t, "concourse", "containerd", "containerd-shim-runc-v2", filepath.Join(cniDir, "bridge"), "iptables", "ip", "unshare", "nsenter")
	return built(t, checkout, "concourse", "concourse", "go.mod", "go.sum", "build.sh", "../once.sh", "*.go")
}

func (s *Servers) startConcourse(ctx context.Context) (*process, error) {
	if err := s.holdNamespaces(ctx, concourseState); err != nil {
		return nil, err
	}
	args := []string{
		filepath.Join(s.programs.concourse, "concourse"), "-listen", filepath.Join(s.Dir, "garden.sock"), "-dir", filepath.Join(s.Dir, concourseState),
		"-cni", cniDir, "-init", filepath.Join(s.programs.concourse, "init"), "-subnet", "10.253.0.0/16",
	}
	if s.options.MaxContainers != 0 {
		args = append(args, "-max-containers", strconv.Itoa(s.options.MaxContainers))
	}
	return s.startInNamespaces(args...)
}

// clearConcourse takes away what a containerd of this directory has left: the programs beside its containers, and the cgroup above theirs, unless another one has
// containers there.
func clearConcourse(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, concourseState)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := killAll(ctx, func(proc string) bool { return livesIn(proc, dir) }); err != nil {
		return err
	}
	dirs, err := cgroups(concourseGroup)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return nil
}
