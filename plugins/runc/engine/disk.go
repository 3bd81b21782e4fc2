//go:build linux

package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// limitDisk puts a layer of bounded size over a container's rootfs and gives the directory where both are seen as one. The layer is in
// memory: so it needs no quotas of the file system below, and is gone with the machine's next start, as the container itself.
func (e *Engine) limitDisk(s Spec) (string, error) {
	fail := func(err error) (string, error) { return "", fmt.Errorf("container %q: a limit of disk: %w", s.ID, err) }
	if strings.ContainsAny(s.Rootfs, ":,\\") {
		return fail(fmt.Errorf("%q cannot be part of an overlay because of its name", s.Rootfs))
	}
	var root unix.Stat_t
	if err := unix.Stat(s.Rootfs, &root); err != nil {
		return fail(fmt.Errorf("%s: %w", s.Rootfs, err))
	}
	layer, whole := e.diskLayer(s.ID), e.diskWhole(s.ID)
	for _, dir := range []string{layer, whole} {
		if err := os.Mkdir(dir, 0o711); err != nil {
			return fail(err)
		}
	}
	if err := unix.Mount("tmpfs", layer, "tmpfs", 0, fmt.Sprintf("mode=711,size=%d", s.DiskBytes)); err != nil {
		return fail(fmt.Errorf("mounting a tmpfs at %s: %w", layer, err))
	}
	upper, work := filepath.Join(layer, "upper"), filepath.Join(layer, "work")
	for _, dir := range []string{upper, work} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fail(err)
		}
	}
	if err := errors.Join(os.Chown(upper, int(root.Uid), int(root.Gid)), unix.Chmod(upper, root.Mode&0o7777)); err != nil { // "/" is the upper one's
		return fail(err)
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", s.Rootfs, upper, work)
	if err := unix.Mount("overlay", whole, "overlay", 0, options); err != nil {
		return fail(fmt.Errorf("mounting an overlay at %s: %w", whole, err))
	}
	return whole, nil
}

func (e *Engine) diskLayer(id string) string { return filepath.Join(e.bundle(id), "layer") }
func (e *Engine) diskWhole(id string) string { return filepath.Join(e.bundle(id), "whole") }

// freeDisk takes away what limitDisk has mounted, if it has. Nothing of the container runs any more; whoever else looks into it keeps what he
// has open.
func (e *Engine) freeDisk(id string) error {
	for _, dir := range []string{e.diskWhole(id), e.diskLayer(id)} {
		err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) { // the latter: nothing is mounted there
			return fmt.Errorf("container %q: unmounting %s: %w", id, dir, err)
		}
	}
	return nil
}
