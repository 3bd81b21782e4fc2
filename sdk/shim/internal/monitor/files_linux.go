package monitor

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// SendFiles gives the monitor the command's stdin, stdout and stderr, before the command.
func SendFiles(socket *os.File, files [3]*os.File) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	rights := unix.UnixRights(int(files[0].Fd()), int(files[1].Fd()), int(files[2].Fd()))
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		failed = unix.Sendmsg(int(fd), []byte{0}, rights, nil, unix.MSG_NOSIGNAL)
		return failed != unix.EAGAIN
	})
	if err == nil {
		err = os.NewSyscallError("sendmsg", failed)
	}
	return err
}

// receiveFiles is the monitor's side. io.EOF says that none will come.
func receiveFiles(socket *os.File) (files [3]int, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return files, err
	}
	var b [1]byte
	oob := make([]byte, unix.CmsgSpace(4*len(files)))
	var n, oobn int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, _, _, failed = unix.Recvmsg(int(fd), b[:], oob, unix.MSG_CMSG_CLOEXEC)
			if failed != unix.EINTR {
				return failed != unix.EAGAIN
			}
		}
	})
	if err == nil {
		err = os.NewSyscallError("recvmsg", failed)
	}
	if err != nil {
		return files, err
	}
	if n == 0 {
		return files, io.EOF
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return files, wire.ErrProtocol
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != len(files) {
		return files, wire.ErrProtocol
	}
	return [3]int(fds), nil
}
