package storenet

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// boundUnanswered ends a connection whose data nobody has confirmed for so long. Without it the system tries for a quarter of an hour.
func boundUnanswered(c *net.TCPConn, most time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(most.Milliseconds()))
	})
}
