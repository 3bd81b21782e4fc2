package monitor

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	userfiles "github.com/moby/sys/user"
	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// user is who the command runs as.
type user struct {
	uid, gid   int
	home, name string
	credential *syscall.Credential // nil: as this process
}

// maxUserFile bounds what is read of the container's files.
const maxUserFile = 16 << 20

// identity finds the user in the container's own files. They may be missing; then only numbers are known.
func identity(spec string) (user, error) {
	name := spec
	if name == "" {
		name = strconv.Itoa(os.Getuid()) + ":" + strconv.Itoa(os.Getgid())
	}
	unknown := &userfiles.ExecUser{Home: "/"}
	u, err := userfiles.GetExecUser(name, unknown, open("/etc/passwd"), open("/etc/group"))
	if err != nil { // numbers need no files, and not even readable ones
		if u, _ = userfiles.GetExecUser(name, unknown, nil, nil); u != nil {
			err = nil
		}
	}
	if err != nil {
		return user{}, &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonUserNotFound, Cause: err,
			Message: fmt.Sprintf("user %q is not in the container: %v", spec, err)}
	}
	is := user{uid: u.Uid, gid: u.Gid, home: u.Home}
	if is.home == "" {
		is.home = "/"
	}
	if spec == "" || u.Uid == os.Geteuid() && u.Gid == os.Getegid() && os.Geteuid() != 0 {
		return is, nil
	}
	is.name, _, _ = strings.Cut(spec, ":")
	groups := make([]uint32, len(u.Sgids))
	for i, g := range u.Sgids {
		groups[i] = uint32(g)
	}
	is.credential = &syscall.Credential{Uid: uint32(u.Uid), Gid: uint32(u.Gid), Groups: groups, NoSetGroups: groupsDenied()}
	return is, nil
}

// open gives a file's beginning if it is a file: what root in the container has put in its place must not hold us up.
func open(name string) io.Reader {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return strings.NewReader("")
	}
	f := os.NewFile(uintptr(fd), name) // closed with the process, which is soon
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return strings.NewReader("")
	}
	return io.LimitReader(f, maxUserFile)
}

// groupsDenied tells whether this user namespace was made by somebody who may not give groups away.
func groupsDenied() bool {
	b, err := os.ReadFile("/proc/self/setgroups")
	return err == nil && strings.TrimSpace(string(b)) == "deny"
}
