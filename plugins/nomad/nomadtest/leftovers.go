//go:build linux

package nomadtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// site is the ground that one agent and its tasks stand on: a directory, and the allocations that control groups are named after. A process is the
// site's if its working directory, root or program is below the directory, or if it is in such a control group, or in that of its Docker.
type site struct {
	dir     string
	allocs  []string
	sockets []string // that containerd's shims have outside of dir
}

// survey adds the allocations that have a directory now, and the sockets of Docker's containers.
func (s *site) survey() error {
	notes, err := filepath.Glob(filepath.Join(s.dir, "docker", "containerd-state", "*", "*", "*", "address"))
	if err != nil {
		return err
	}
	for _, n := range notes {
		text, err := os.ReadFile(n)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		socket := strings.TrimPrefix(string(text), "unix://")
		if strings.HasPrefix(socket, shimSockets) && !slices.Contains(s.sockets, socket) {
			s.sockets = append(s.sockets, socket)
		}
	}
	allocs, err := filepath.Glob(filepath.Join(s.dir, "data*", "alloc", "*")) // of Agent.Replace, too
	if err != nil {
		return err
	}
	for _, dir := range allocs {
		if id := filepath.Base(dir); !slices.Contains(s.allocs, id) {
			s.allocs = append(s.allocs, id)
		}
	}
	return nil
}

// shimSockets is where containerd's shims have their sockets, whatever they are told.
const shimSockets = "/run/containerd/s/"

// clear ends the site's processes, removes its mounts and control groups and then its directory, which stays as long as anything is mounted in it.
func (s *site) clear(ctx context.Context) error {
	if err := s.survey(); err != nil {
		return err
	}
	if err := s.kill(ctx); err != nil {
		return err
	}
	if err := s.unmount(); err != nil {
		return err
	}
	errs := []error{s.removeGroups(), s.removeBridge()}
	for _, socket := range s.sockets {
		if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// left says what of the site is still there.
func (s *site) left() ([]string, error) {
	var found []string
	pids, err := s.processes()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		found = append(found, fmt.Sprintf("process %d: %s", pid, bytes.ReplaceAll(name, []byte{0}, []byte{' '})))
	}
	mounts, err := s.mounts()
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		found = append(found, "mount "+m)
	}
	groups, err := s.groups()
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		found = append(found, "control group "+g)
	}
	for _, socket := range s.sockets {
		if _, err := os.Lstat(socket); err == nil {
			found = append(found, "socket "+socket)
		}
	}
	if s.hasBridge() {
		found = append(found, "network device "+s.bridge())
	}
	if _, err := os.Lstat(s.dir); err == nil {
		found = append(found, "directory "+s.dir)
	}
	return found, nil
}

func (s *site) processes() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && pid != os.Getpid() && s.owns(pid) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// owns tells whether a process is the site's. One that has ended meanwhile, or only waits to be reaped, is nobody's.
func (s *site) owns(pid int) bool {
	proc := fmt.Sprintf("/proc/%d/", pid)
	for _, link := range []string{"cwd", "root", "exe"} {
		if to, err := os.Readlink(proc + link); err == nil && (to == s.dir || strings.HasPrefix(to, s.dir+"/")) {
			return true
		}
	}
	groups, err := os.ReadFile(proc + "cgroup")
	if err != nil {
		return false
	}
	if exe, err := os.Readlink(proc + "exe"); err != nil || exe == "" {
		return false
	}
	if bytes.Contains(groups, []byte(":/"+s.name()+"/")) {
		return true
	}
	return slices.ContainsFunc(s.allocs, func(id string) bool { return bytes.Contains(groups, []byte("/"+id+".")) })
}

// kill kills the site's processes until there are none: one may start another while it is looked for.
func (s *site) kill(ctx context.Context) error {
	for {
		pids, err := s.processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		if err := s.thaw(); err != nil {
			return err
		}
		for _, pid := range pids {
			if err := s.end(ctx, pid); err != nil {
				return fmt.Errorf("process %d: %w", pid, err)
			}
		}
	}
}

// end kills one process and waits until it is gone. It holds the process by a descriptor, as its number may become another's.
func (s *site) end(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	} else if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !s.owns(pid) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100) // so that ctx is looked at
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("it does not end on SIGKILL: %w", ctx.Err())
		}
	}
}

// thaw lets frozen tasks run, for only then they end. An agent that is killed while it ends a task leaves it frozen.
func (s *site) thaw() error {
	groups, err := s.groups()
	if err != nil {
		return err
	}
	for _, g := range groups {
		dirs, err := below(g)
		if err != nil {
			return err
		}
		for _, d := range dirs {
			state := filepath.Join(d, "freezer.state")
			if _, err := os.Stat(state); err != nil {
				continue // not the freezer's
			}
			if err := os.WriteFile(state, []byte("THAWED"), 0); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
				return err
			}
		}
	}
	return nil
}

// mounts returns the mount points in the directory, the later mounted first.
func (s *site) mounts() ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var points []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			return nil, fmt.Errorf("/proc/self/mountinfo: a line without mount point: %q", lines.Text())
		}
		point := unescape(fields[4])
		if strings.HasPrefix(point, s.dir+"/") {
			points = append(points, point)
		}
	}
	slices.Reverse(points)
	return points, lines.Err()
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func (s *site) unmount() error {
	points, err := s.mounts()
	if err != nil {
		return err
	}
	for _, p := range points {
		if err := unix.Unmount(p, unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", p, err)
		}
	}
	return nil
}

// groups returns the control groups of the site's allocations and of its Docker, of either version. Nomad's own parent group, which all agents of a
// machine share, is not among them.
func (s *site) groups() ([]string, error) {
	var patterns []string
	for _, id := range s.allocs {
		patterns = append(patterns, "*/*/"+id+".*", "*/*/*/"+id+".*")
	}
	if strings.HasPrefix(s.name(), dirPrefix) {
		patterns = append(patterns, s.name(), "*/"+s.name())
	}
	var all []string
	for _, p := range patterns {
		found, err := filepath.Glob(filepath.Join("/sys/fs/cgroup", p))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func (s *site) removeGroups() error {
	groups, err := s.groups()
	if err != nil {
		return err
	}
	for _, g := range groups {
		dirs, err := below(g)
		if err != nil {
			return err
		}
		for _, d := range slices.Backward(dirs) {
			if err := unix.Rmdir(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("control group %s: %w", d, err)
			}
		}
	}
	return nil
}

// below returns a directory and those in it, each before what it holds.
func below(dir string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return dirs, err
}
