//go:build linux

package gardentest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

// freePorts chooses three ports that nobody listens on. They are below those that the kernel gives to whoever asks for any, for a connection's
// own end too, if there are such: a server that is started again finds its port where it was. Another test's server may take one before a server does.
func freePorts() ([3]int, error) {
	var chosen [3]int
	const from, tries = 5000, 1000
	above := ephemeral()
	for i, try := 0, 0; i < len(chosen); try++ {
		port := 0
		if above > from+tries {
			port = from + rand.IntN(above-from)
		}
		l, err := net.Listen("tcp", local(port))
		if err != nil && try < tries {
			continue
		}
		if err != nil {
			return chosen, err
		}
		defer l.Close() // all are held until all are chosen, so that they differ
		chosen[i] = l.Addr().(*net.TCPAddr).Port
		i++
	}
	return chosen, nil
}

// ephemeral is the first of the ports that the kernel chooses from by itself, 0 where it does not say.
func ephemeral() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0
	}
	var first int
	if _, err := fmt.Sscan(string(text), &first); err != nil {
		return 0
	}
	return first
}

// portsFree tells whether all of them can be bound now.
func portsFree(ports ...int) bool {
	for _, port := range ports {
		l, err := net.Listen("tcp", local(port))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
