package volumetar

import (
	"archive/tar"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

const (
	paxXattr        = "SCHILY.xattr."
	paxSparse       = "GNU.sparse."
	xattrDefaultACL = "system.posix_acl_default"
	xattrCapability = "security.capability"
)

// carried says whether archives keep an attribute; see the package's doc.
func carried(name string) bool {
	if strings.HasPrefix(name, "user.overlay.") || strings.HasPrefix(name, "trusted.overlay.") {
		return false
	}
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "trusted.") || name == xattrCapability ||
		strings.HasPrefix(name, "system.posix_acl_")
}

// xattrs are those of an entry that are kept. The names of records cannot contain "=", so it is written as GNU tar does.
func xattrs(h *tar.Header) map[string]string {
	var attrs map[string]string
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, paxXattr)
		name = strings.NewReplacer("%3D", "=", "%25", "%").Replace(name)
		if !ok || !carried(name) {
			continue
		}
		if attrs == nil {
			attrs = make(map[string]string)
		}
		attrs[name] = value
	}
	return attrs
}

func xattrKey(name string) string {
	return paxXattr + strings.NewReplacer("%", "%25", "=", "%3D").Replace(name)
}

// setXattrs sets attributes on what fd stands for; place says that this is an O_PATH descriptor.
func (u *unpacking) setXattrs(fd int, attrs map[string]string, place bool) error {
	for name, value := range attrs {
		var err error
		switch {
		case !place:
			err = unix.Fsetxattr(fd, name, []byte(value), 0)
		case u.tree.proc:
			err = unix.Setxattr(procPath(fd), name, []byte(value), 0)
		default:
			err = fmt.Errorf("/proc is not mounted: %w", unix.EOPNOTSUPP)
		}
		if err == unix.EDQUOT || err == unix.ENOSPC && full(fd) {
			return err
		}
		if err != nil {
			return &sdk.Error{Class: sdk.Unsupported, Feature: sdk.FeatureTarXattrs, Cause: err,
				Message: fmt.Sprintf("extended attribute %q cannot be kept here: %v", short(name), err)}
		}
	}
	return nil
}

// full tells a full disk from a file system's bound on one file's attributes, for which there is but one error.
func full(fd int) bool {
	const few = 16
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) != nil || st.Bavail < few
}

// getXattrs adds to h the attributes of what fd stands for.
func (t *tree) getXattrs(h *tar.Header, fd int, place bool) error {
	if place && !t.proc {
		return nil
	}
	list := func(b []byte) (int, error) { return unix.Flistxattr(fd, b) }
	if place {
		list = func(b []byte) (int, error) { return unix.Listxattr(procPath(fd), b) }
	}
	names, err := grown(list)
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS || err == unix.EPERM || len(names) == 0 && err == nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing its extended attributes: %w", err)
	}
	all := strings.Split(strings.TrimSuffix(string(names), "\x00"), "\x00")
	slices.Sort(all)
	for _, name := range all {
		if !carried(name) {
			continue
		}
		value, err := grown(func(b []byte) (int, error) {
			if place {
				return unix.Getxattr(procPath(fd), name, b)
			}
			return unix.Fgetxattr(fd, name, b)
		})
		if err == unix.ENODATA || err == unix.EOPNOTSUPP { // removed meanwhile, or an ACL that is not in use
			continue
		}
		if err != nil {
			return fmt.Errorf("reading its extended attribute %q: %w", short(name), err)
		}
		if h.PAXRecords == nil {
			h.PAXRecords = make(map[string]string)
		}
		h.PAXRecords[xattrKey(name)] = string(value)
	}
	return nil
}

// grown calls with a buffer that is large enough; the kernel's bound is 64 KiB.
func grown(get func([]byte) (int, error)) ([]byte, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := get(buf)
		if err == unix.ERANGE && size < 1<<20 {
			continue
		}
		if err != nil {
			return nil, err
		}
		return buf[:n], nil
	}
}
