package supervisor

import (
	"bytes"
	"cmp"
	"os"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// openTTY makes a terminal. The far end is opened through the near one, so that no name in the container matters but that of the
// multiplexer.
func openTTY(size sdk.TTY) (master, slave *os.File, err error) {
	for _, name := range []string{"/dev/pts/ptmx", "/dev/ptmx"} {
		var fd int
		if fd, err = unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
			err = &os.PathError{Op: "open", Path: name, Err: err}
			continue
		}
		if slave, err = farEnd(fd); err == nil {
			err = setSize(fd, size)
		}
		if err == nil {
			return os.NewFile(uintptr(fd), name), slave, nil
		}
		if slave != nil {
			slave.Close()
		}
		unix.Close(fd)
	}
	return nil, nil, err
}

func farEnd(master int) (*os.File, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return nil, os.NewSyscallError("ioctl(TIOCSPTLCK)", err)
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return nil, os.NewSyscallError("ioctl(TIOCGPTPEER)", errno)
	}
	return os.NewFile(fd, "terminal"), nil
}

func setSize(fd int, size sdk.TTY) error {
	w := &unix.Winsize{Col: cmp.Or(size.Columns, 80), Row: cmp.Or(size.Rows, 24)}
	return os.NewSyscallError("ioctl(TIOCSWINSZ)", unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, w))
}

// endings is how many readers of a terminal see the end of its input. The kernel keeps 4,095 bytes.
const endings = 1024

// endTTY types the character that ends input, as a person would: once for each who may come to read, for on a terminal an end is over with
// the read that sees it. A program that reads every key when input ends gets it once; one that turns to that later, and keeps what was
// typed before, gets zero bytes.
func endTTY(master *os.File) error {
	raw, err := master.SyscallConn()
	if err != nil {
		return err
	}
	eof, times := byte(4), 1
	_ = raw.Control(func(fd uintptr) {
		t, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		if err != nil {
			return
		}
		if eof = t.Cc[unix.VEOF]; t.Lflag&unix.ICANON != 0 {
			times = endings
		}
	})
	_, err = master.Write(bytes.Repeat([]byte{eof}, times))
	return err
}

func (s *streams) resize(id sdk.ProcessID, size sdk.TTY) error {
	if !s.tty {
		return &sdk.Error{Class: sdk.FailedPrecondition, Kind: sdk.KindProcess, ID: string(id), Message: "process \"" + string(id) + "\" has no terminal"}
	}
	raw, err := s.outputs[0].file.SyscallConn()
	if err != nil {
		return nil // it has just ended
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = setSize(int(fd), size) }); err != nil {
		return nil
	}
	return failed
}
