package monitor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// start starts the command, or nothing. Its error says whose fault that was and holds nothing of arguments or environment.
func (m *monitor) start(c Command) error {
	u, err := identity(c.User)
	if err != nil {
		return err
	}
	unix.Umask(0o022)
	if err := enter(string(c.Dir), u); err != nil {
		return err
	}
	if u.credential != nil {
		// So that the user can open them by name, as /dev/stderr or /dev/pts/0. It works without.
		for _, fd := range m.stdio {
			_ = unix.Fchown(fd, u.uid, -1)
		}
	}
	env := withDefaults(c.Env, u)
	candidates, err := lookPath(string(c.Path), env)
	if err != nil {
		return err
	}
	attr := &syscall.ProcAttr{
		Env: env, Files: []uintptr{uintptr(m.stdio[0]), uintptr(m.stdio[1]), uintptr(m.stdio[2])},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: c.TTY, Ctty: 0, Credential: u.credential},
	}
	argv := make([]string, 1, 1+len(c.Args))
	argv[0] = string(c.Path)
	for _, a := range c.Args {
		argv = append(argv, string(a))
	}
	restore := preferForOOM()
	defer restore()
	// The runtime may have started this program with signals blocked. Of the command none is; here it does no harm.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, new(unix.Sigset_t), nil); err != nil {
		return sdk.NewInternal(err, "unblocking signals: %v", err)
	}
	for _, name := range candidates {
		err = whileBusy(func() error {
			m.leader, err = syscall.ForkExec(name, argv, attr)
			return err
		})
		if err == nil {
			m.ownPeak = ownPeak()
			m.letGo()
			return nil
		}
		// As execvp does: what cannot be run here may be found further on.
		if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) && err != unix.ENOTDIR {
			break
		}
	}
	return notStarted(string(c.Path), u, err)
}

// stillWritten is how long a program may be open for writing before that is an error. Its writer may have closed it already:
// a process that the writer was forking meanwhile holds the file, too, until it executes its own program.
const stillWritten = 2 * time.Second

// whileBusy executes again what is open for writing, until it is not or stillWritten has passed. The kernel tells nobody of the moment when the last
// writer is gone, on every file system at least, so it asks now and then.
func whileBusy(execute func() error) error {
	for since := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if err := execute(); err != unix.ETXTBSY || time.Since(since) >= stillWritten {
			return err
		}
	}
}

// lookPath gives the files that the name may mean, in order. There is at least one.
func lookPath(name string, env []string) ([]string, error) {
	if strings.Contains(name, "/") {
		return []string{name}, nil
	}
	var found []string
	for _, e := range env { // it is there once
		path, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for dir := range strings.SplitSeq(path, ":") { // an empty one is the directory itself, even where it is the only one
			file := filepath.Join(dir, name)
			if dir == "" || !filepath.IsAbs(dir) {
				file = "." + string(filepath.Separator) + file
			}
			if _, err := os.Stat(file); err == nil {
				found = append(found, file)
			}
		}
		break
	}
	if len(found) == 0 {
		return nil, sdk.NewInvalid(sdk.ReasonExecutableNotFound, "%q is in no directory of the process's PATH", name)
	}
	return found, nil
}

// withDefaults gives the last variable of each name, and adds what a login would have set. Of two of one name some programs would take the first.
func withDefaults(env [][]byte, u user) []string {
	all := make([]string, 0, len(env)+3)
	seen := make(map[string]bool, len(env))
	for _, e := range slices.Backward(env) {
		name, _, _ := strings.Cut(string(e), "=")
		if !seen[name] {
			seen[name] = true
			all = append(all, string(e))
		}
	}
	slices.Reverse(all)
	path := "PATH=/usr/local/bin:/usr/bin:/bin"
	if u.uid == 0 {
		path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	defaults := []string{path, "HOME=" + u.home}
	if u.name != "" {
		defaults = append(defaults, "USER="+u.name)
	}
	for _, d := range defaults {
		name, _, _ := strings.Cut(d, "=")
		if !seen[name] {
			all = append(all, d)
		}
	}
	return all
}

// notStarted tells why the kernel refused.
func notStarted(path string, u user, err error) error {
	invalid := func(reason sdk.Reason, what string) error {
		return &sdk.Error{Class: sdk.Invalid, Reason: reason, Kind: sdk.KindFile, ID: path, Message: fmt.Sprintf("%q %s", path, what), Cause: err}
	}
	info, missing := os.Stat(path)
	switch err {
	case unix.ENOENT, unix.ENOTDIR:
		if strings.Contains(path, "/") && missing != nil {
			return invalid(sdk.ReasonExecutableNotFound, "is not in the container")
		}
		return invalid(sdk.ReasonNotExecutable, "is there, but the interpreter that it names is not")
	case unix.EACCES:
		if missing == nil && info.IsDir() {
			return invalid(sdk.ReasonNotExecutable, "is a directory")
		}
		return invalid(sdk.ReasonNotExecutable, "may not be executed by this user: permission, or a file system without execution")
	case unix.ENOEXEC, unix.ELIBBAD, unix.EISDIR:
		return invalid(sdk.ReasonNotExecutable, "is no program for this machine: another architecture, damaged, or a script that names no interpreter")
	case unix.ELOOP:
		return invalid(sdk.ReasonNotExecutable, "is a link that leads nowhere")
	case unix.ETXTBSY:
		return invalid(sdk.ReasonNotExecutable, "is still open for writing")
	case unix.E2BIG:
		return invalid(sdk.ReasonTooLarge, "gets more arguments and environment than the kernel takes")
	case unix.ENAMETOOLONG:
		return invalid(sdk.ReasonExecutableNotFound, "is longer than a path can be")
	case unix.EAGAIN, unix.ENOMEM:
		return &sdk.Error{Class: sdk.Unavailable, Message: fmt.Sprintf("%q was not started: the container has no room for one more process now (%v)", path, err), Cause: err}
	case unix.EPERM, unix.EINVAL:
		if u.credential != nil {
			return &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonUserNotFound, Cause: err,
				Message: fmt.Sprintf("the process cannot become user %d with group %d in this container (%v): is it mapped there?", u.uid, u.gid, err)}
		}
		return invalid(sdk.ReasonNotExecutable, "may not be executed: "+err.Error())
	}
	return sdk.NewInternal(err, "%q was not started: %v", path, err)
}

func ownPeak() int64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return usage.Maxrss
}

// letGo closes the command's pipes here, so that their ends are seen when the command ends.
func (m *monitor) letGo() {
	for _, fd := range m.stdio {
		_ = unix.Close(fd)
	}
}
