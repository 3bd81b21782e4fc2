package volumetar

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// The entries of an archive that are no directories. Each is made anew in parent, an open directory, and gets its owner before its
// attributes and mode: a change of owner takes setuid bits and capabilities away.

func (u *unpacking) file(parent int, name string, h *tar.Header) error {
	if u.MaxBytes > 0 && h.Size > u.MaxBytes-u.bytesIn {
		return sdk.NewInvalid(sdk.ReasonTooLarge, "the archive has more than %d bytes of files", u.MaxBytes)
	}
	u.bytesIn += h.Size
	fd := -1
	err := instead(parent, name, func() (err error) {
		const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
		fd, err = again(func() (int, error) { return unix.Openat(parent, name, flags, 0o600) })
		return err
	})
	if err != nil {
		return err
	}
	err = u.fill(fd, parent, name, h)
	if closeErr := unix.Close(fd); err == nil {
		err = closeErr // where a network's file system tells of a full disk
	}
	if err != nil {
		_ = unix.Unlinkat(parent, name, 0) // the first error counts
	}
	return err
}

func (u *unpacking) fill(fd, parent int, name string, h *tar.Header) error {
	if err := u.content(fd, h); err != nil {
		return err
	}
	if err := u.chown(fd, h); err != nil {
		return err
	}
	if err := u.setXattrs(fd, xattrs(h), false); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, u.mode(h)); err != nil {
		return err
	}
	return setTime(parent, name, timespec(h))
}

// content copies what the archive has of a file. Where that has holes, runs of zeros become holes again.
func (u *unpacking) content(fd int, h *tar.Header) error {
	sparse := isSparse(h)
	if sparse { // what no file can hold fails before its zeros are counted
		if err := unix.Ftruncate(fd, h.Size); err != nil {
			return err
		}
	}
	size := int64(0)
	for {
		if err := u.in.ctx.Err(); err != nil { // a hole reads nothing of the source
			return err
		}
		n, err := io.ReadFull(u.tar, u.buf)
		if n > 0 {
			if writeErr := write(fd, u.buf[:n], size, sparse); writeErr != nil {
				return writeErr
			}
			size += int64(n)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF && size == h.Size {
			break
		}
		if err != nil {
			return badArchive("archive entry %q: the archive breaks off after %d of %d bytes: %v", short(h.Name), size, h.Size, err)
		}
	}
	if size != h.Size {
		return badArchive("archive entry %q has %d bytes instead of %d", short(h.Name), size, h.Size)
	}
	return nil
}

func isSparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, paxSparse) {
			return true
		}
	}
	return false
}

// write writes at an offset, leaving out blocks of zeros if sparse.
func write(fd int, b []byte, at int64, sparse bool) error {
	const block = 4 << 10
	for len(b) > 0 {
		n := len(b)
		if sparse {
			n = run(b, block)
			if zero(b[:min(block, n)]) {
				b, at = b[n:], at+int64(n)
				continue
			}
		}
		done, err := again(func() (int, error) { return unix.Pwrite(fd, b[:n], at) })
		if err != nil {
			return err
		}
		b, at = b[done:], at+int64(done)
	}
	return nil
}

// run is how many bytes of b are alike: in blocks of zeros, or in others.
func run(b []byte, block int) int {
	first := zero(b[:min(block, len(b))])
	n := min(block, len(b))
	for n < len(b) && zero(b[n:min(n+block, len(b))]) == first {
		n = min(n+block, len(b))
	}
	return n
}

// zero says that all of b, which is not empty, is zero: the first byte is, and each is like the one before it.
func zero(b []byte) bool { return b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1]) }

func (u *unpacking) symlink(parent int, name string, h *tar.Header) error {
	if h.Linkname == "" || strings.IndexByte(h.Linkname, 0) >= 0 {
		return badArchive("archive entry %q: a symbolic link needs a target, without NUL bytes", short(h.Name))
	}
	if err := instead(parent, name, func() error { return unix.Symlinkat(h.Linkname, parent, name) }); err != nil {
		return err
	}
	return u.attributes(parent, name, unix.S_IFLNK, h)
}

func (u *unpacking) special(parent int, name string, h *tar.Header) error {
	kind := map[byte]uint32{tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK, tar.TypeFifo: unix.S_IFIFO}[h.Typeflag]
	device := uint64(0)
	if kind != unix.S_IFIFO {
		if u.NoDevices {
			return noDevices(h, errors.New("devices are not taken here"))
		}
		const maxMajor, maxMinor = 1<<12 - 1, 1<<20 - 1 // of Linux
		if h.Devmajor < 0 || h.Devmajor > maxMajor || h.Devminor < 0 || h.Devminor > maxMinor {
			return badArchive("archive entry %q: there is no device %d:%d", short(h.Name), h.Devmajor, h.Devminor)
		}
		device = unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))
	}
	// Nobody else may open it before it has its owner.
	err := instead(parent, name, func() error { return unix.Mknodat(parent, name, kind|0o600, int(device)) })
	if kind != unix.S_IFIFO && (err == unix.EPERM || err == unix.EOPNOTSUPP) {
		return noDevices(h, err)
	}
	if err != nil {
		return err
	}
	return u.attributes(parent, name, kind, h)
}

func noDevices(h *tar.Header, err error) error {
	return &sdk.Error{Class: sdk.Unsupported, Feature: sdk.FeatureTarDevices, Cause: err,
		Message: fmt.Sprintf("archive entry %q: device node %d:%d cannot be made: %v", short(h.Name), h.Devmajor, h.Devminor, err)}
}

// attributes gives a new link or special file all that its entry says of it. It is opened for that, as nothing but a place.
func (u *unpacking) attributes(parent int, name string, kind uint32, h *tar.Header) error {
	fd, err := openat(parent, name, openPath)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != kind {
		return errChanged
	}
	if err := u.chown(fd, h); err != nil {
		return err
	}
	if err := u.setXattrs(fd, xattrs(h), true); err != nil {
		return err
	}
	if kind != unix.S_IFLNK {
		if err := u.chmodPath(fd, u.mode(h)); err != nil {
			return err
		}
	}
	return setTime(parent, name, timespec(h))
}

// chmodPath is chmod of an O_PATH descriptor.
func (u *unpacking) chmodPath(fd int, mode uint32) error {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if err == nil {
		return nil
	}
	if u.tree.proc {
		return unix.Chmod(procPath(fd), mode)
	}
	var st unix.Stat_t
	if statErr := unix.Fstat(fd, &st); statErr == nil && st.Mode&0o7777 == mode {
		return nil
	}
	return fmt.Errorf("its mode cannot be set without a mounted /proc on this kernel: %w", err)
}

// link makes another name for what the archive, or one before it, has brought. A symbolic link is itself.
func (u *unpacking) link(parent int, name string, h *tar.Header) error {
	names, err := entryNames(h.Linkname)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return badArchive("archive entry %q: a hard link to the volume's root", short(h.Name))
	}
	from, err := u.tree.dir(names[:len(names)-1])
	target := names[len(names)-1]
	var old, here unix.Stat_t
	if err == nil {
		defer unix.Close(from)
		err = unix.Fstatat(from, target, &old, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == unix.ENOENT {
		return badArchive("archive entry %q: a hard link to %q, which is not there", short(h.Name), short(h.Linkname))
	}
	if err != nil {
		return err
	}
	if old.Mode&unix.S_IFMT == unix.S_IFDIR {
		return badArchive("archive entry %q: a hard link to the directory %q", short(h.Name), short(h.Linkname))
	}
	if unix.Fstatat(parent, name, &here, unix.AT_SYMLINK_NOFOLLOW) == nil && same(&old, &here) {
		return nil // also of a name to itself
	}
	return instead(parent, name, func() error { return unix.Linkat(from, target, parent, name, 0) })
}

// chown gives what fd stands for its numeric owner.
func (u *unpacking) chown(fd int, h *tar.Header) error {
	if u.DropOwners {
		return nil
	}
	err := unix.Fchownat(fd, "", h.Uid, h.Gid, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.EPERM || err == unix.EINVAL {
		return sdk.NewInternal(err, "archive entry %q: user %d cannot give it to %d:%d (%v); run as root, or drop owners", short(h.Name), u.uid, h.Uid, h.Gid, err)
	}
	return err
}

// mode is an entry's, without bits that would lend our own rights in place of the owner's.
func (u *unpacking) mode(h *tar.Header) uint32 {
	mode := uint32(h.Mode & 0o7777)
	if u.DropOwners && h.Uid != u.uid {
		mode &^= unix.S_ISUID
	}
	if u.DropOwners && h.Gid != u.gid {
		mode &^= unix.S_ISGID
	}
	return mode
}

func setTime(dir int, name string, mtime unix.Timespec) error {
	return unix.UtimesNanoAt(dir, name, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, mtime}, unix.AT_SYMLINK_NOFOLLOW)
}

// timespec is good for any time; a file system keeps the nearest that it can. Times so far off that they cannot be told are cut.
func timespec(h *tar.Header) unix.Timespec {
	const far = math.MaxInt64 / 4
	return unix.Timespec{Sec: max(-far, min(far, h.ModTime.Unix())), Nsec: int64(h.ModTime.Nanosecond())}
}
