//go:build !linux

package storenet

import (
	"net"
	"time"
)

func boundUnanswered(*net.TCPConn, time.Duration) {}
