package volumetar

import (
	"crypto/rand"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// Features tells which of [sdk.FeatureTarXattrs], [sdk.FeatureTarSparse], [sdk.FeatureTarDevices] and [sdk.FeatureTarDirTimes] hold here for
// this process, by trying them in a directory with a random name that it makes and removes. tar.xattrs needs attributes of users and
// capabilities of files; a process that may set only the first keeps those all the same.
func (r *Root) Features() ([]sdk.Feature, error) {
	t, err := r.hold()
	if err != nil {
		return nil, err
	}
	defer t.close()
	failed := func(err error) error {
		return sdk.NewInternal(err, "directory %q: trying what archives keep there: %v", r.dir.Name(), err)
	}
	name := ".volumetar-" + rand.Text()
	if err := unix.Mkdirat(t.fd, name, 0o700); err != nil {
		return nil, failed(err)
	}
	defer unix.Unlinkat(t.fd, name, unix.AT_REMOVEDIR)
	dir, err := openat(t.fd, name, readDir)
	if err != nil {
		return nil, failed(err)
	}
	defer unix.Close(dir)
	fd, err := again(func() (int, error) {
		return unix.Openat(dir, "file", unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	})
	if err != nil {
		return nil, failed(err)
	}
	defer unix.Unlinkat(dir, "file", 0)
	defer unix.Close(fd)

	features := []sdk.Feature{sdk.FeatureTarDirTimes}
	holes, err := keepsHoles(fd)
	if err != nil {
		return nil, failed(err)
	}
	if holes {
		features = append(features, sdk.FeatureTarSparse)
	}
	if unix.Fsetxattr(fd, "user.volumetar", []byte("x"), 0) == nil && unix.Fsetxattr(fd, xattrCapability, noCapability(), 0) == nil {
		features = append(features, sdk.FeatureTarXattrs)
	}
	if !r.options.NoDevices && unix.Mknodat(dir, "null", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) == nil {
		features = append(features, sdk.FeatureTarDevices)
		if err := unix.Unlinkat(dir, "null", 0); err != nil {
			return nil, failed(err)
		}
	}
	return features, nil
}

// keepsHoles writes a byte behind a hole and looks whether the file system finds it.
func keepsHoles(fd int) (bool, error) {
	const hole = 1 << 20
	if _, err := unix.Pwrite(fd, []byte{1}, hole); err != nil {
		return false, fmt.Errorf("writing a byte: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	from, err := unix.Seek(fd, 0, unix.SEEK_DATA)
	return err == nil && from > 0 && st.Blocks*512 < hole, nil
}

// noCapability is an attribute that gives no right: version 2, all sets empty.
func noCapability() []byte { return append([]byte{0, 0, 0, 2}, make([]byte, 16)...) }
