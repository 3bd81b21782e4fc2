//go:build linux

package gardentest

import (
	"net"
	"strconv"
)

// freePorts chooses three ports that nobody listens on. Another program may take one before a server does.
func freePorts() ([3]int, error) {
	var chosen [3]int
	for i := range chosen {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return chosen, err
		}
		defer l.Close() // all are held until all are chosen, so that they differ
		chosen[i] = l.Addr().(*net.TCPAddr).Port
	}
	return chosen, nil
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
