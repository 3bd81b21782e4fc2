//go:build linux

package machine

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MountAll mounts in a container's root what programs expect, processes at proc and devices at dev, and the container's volumes. Whoever calls it is to become the
// container's first process: it has namespaces of its own of mounts, which are cut off from the machine's here, and of processes. What is
// mounted ends with them.
func MountAll(c Container) error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil { // the machine sees nothing of what follows
		return err
	}
	if err := mount("proc", filepath.Join(c.Root, "proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := mountDevices(filepath.Join(c.Root, "dev")); err != nil {
		return err
	}
	for _, m := range c.Mounts {
		if err := mount(m.Source, m.Target, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		if !m.ReadOnly {
			continue
		}
		if err := mount("", m.Target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return err
		}
	}
	return nil
}

// mountDevices makes devices that do no harm, terminals of the container's own, and a place for shared memory.
func mountDevices(dev string) error {
	if err := mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=64k"); err != nil {
		return err
	}
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		if err := makeDevice(filepath.Join(dev, name), unix.Mkdev(1, minor)); err != nil {
			return err
		}
	}
	if err := makeDevice(filepath.Join(dev, "tty"), unix.Mkdev(5, 0)); err != nil {
		return err
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	for name, options := range map[string]string{"pts": "newinstance,ptmxmode=0666,mode=0620", "shm": "mode=1777,size=64m"} {
		kind, at := "tmpfs", filepath.Join(dev, name)
		if name == "pts" {
			kind = "devpts"
		}
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		if err := mount(kind, at, kind, unix.MS_NOSUID|unix.MS_NOEXEC, options); err != nil {
			return err
		}
	}
	return nil
}

func makeDevice(path string, number uint64) error {
	const mode = 0o666
	if err := unix.Mknod(path, unix.S_IFCHR|mode, int(number)); err != nil {
		return fmt.Errorf("making the device %s: %w", path, err)
	}
	return unix.Chmod(path, mode) // whatever the umask
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mounting %q at %s: %w", source, target, err)
	}
	return nil
}
