//go:build linux

package gardentest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	dirPrefix = "slipway-garden-"
	marker    = "locked" // a file in a directory whose maker has locked it
)

// makeDir makes a directory and locks it, so that no other test binary takes it for an abandoned one.
func makeDir() (string, *os.File, error) {
	base, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp(base, dirPrefix)
	if err != nil {
		return "", nil, err
	}
	lock, err := tryLock(dir)
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), os.Remove(dir))
	}
	err = os.Chmod(dir, 0o755) // roots of containers are other users, and pass through
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, marker), nil, 0o600)
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir), lock.Close())
	}
	return dir, lock, nil
}

// tryLock locks a directory, for as long as the file is open.
func tryLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// bestDriver is overlay, unless a directory cannot be an overlay's upper one.
func bestDriver(dir string) string {
	try, err := os.MkdirTemp(dir, "overlay-")
	if err != nil {
		return "naive"
	}
	defer os.RemoveAll(try) // nothing is mounted there by then, see below
	var paths []any
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		path := filepath.Join(try, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			return "naive"
		}
		paths = append(paths, path)
	}
	if err := unix.Mount("overlay", paths[3].(string), "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", paths[:3]...)); err != nil {
		return "naive"
	}
	if err := unix.Unmount(paths[3].(string), 0); err != nil {
		return "naive"
	}
	return "overlay"
}

// clear deletes containers that a directory's Garden server has left, unmounts what is mounted in it, and removes it.
func clear(ctx context.Context, dir string) error {
	if err := deleteContainers(ctx, filepath.Join(dir, "garden", "engine", "runc")); err != nil {
		return err
	}
	if err := clearGuardian(ctx, dir); err != nil {
		return err
	}
	if err := clearConcourse(ctx, dir); err != nil {
		return err
	}
	if err := unmount(dir); err != nil {
		return err
	}
	return remove(dir)
}

// deleteContainers needs no server, for that may be why they are left.
func deleteContainers(ctx context.Context, state string) error {
	if _, err := os.Stat(state); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	out, err := exec.CommandContext(ctx, "runc", "--root", state, "list", "--format", "json").Output()
	if err != nil {
		return fmt.Errorf("runc list in %s: %w", state, err)
	}
	var all []struct{ ID string }
	if err := json.Unmarshal(out, &all); err != nil {
		return fmt.Errorf("runc list in %s: %w", state, err)
	}
	for _, c := range all {
		if out, err := exec.CommandContext(ctx, "runc", "--root", state, "delete", "--force", c.ID).CombinedOutput(); err != nil {
			return fmt.Errorf("runc delete of %s in %s: %w: %s", c.ID, state, err, out)
		}
	}
	return nil
}

// mountsIn gives the mount points below a directory, and itself if it is one, the later mounted first.
func mountsIn(dir string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			return nil, fmt.Errorf("/proc/self/mountinfo: a line without mount point: %q", lines.Text())
		}
		if point := unescape.Replace(fields[4]); point == dir || strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	slices.Reverse(points)
	return points, lines.Err()
}

// unmount unmounts what is mounted below a directory. What is in use stays, and is an error.
func unmount(dir string) error {
	points, err := mountsIn(dir)
	if err != nil {
		return err
	}
	for _, p := range points {
		flags := unix.UMOUNT_NOFOLLOW
		if p == dir { // who holds its lock may have opened it there
			flags |= unix.MNT_DETACH
		}
		if err := unix.Unmount(p, flags); err != nil {
			return fmt.Errorf("unmount %s: %w", p, err)
		}
	}
	return nil
}

// remove removes a directory, but never through a mount.
func remove(dir string) error {
	points, err := mountsIn(dir)
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("%s is not removed: something is mounted at %q", dir, points)
	}
	return os.RemoveAll(dir)
}
