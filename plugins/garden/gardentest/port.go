//go:build linux

package gardentest

import (
	"context"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// port is a loopback port that nobody else gets. While nobody listens there, connections are refused.
type port struct {
	address string
	fd      int // bound, and never listening
}

func holdPort() (*port, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var own unix.Sockaddr
	if err == nil {
		own, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("hold a port: %w", err)
	}
	return &port{address: local(own.(*unix.SockaddrInet4).Port), fd: fd}, nil
}

// listen shares the port with the one who holds it.
func (p *port) listen(ctx context.Context) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		if err != nil {
			return err
		}
		return set
	}}
	return config.Listen(ctx, "tcp4", p.address)
}

func (p *port) release() { unix.Close(p.fd) }
