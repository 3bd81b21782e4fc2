//go:build unix

package main

import (
	"os"
	"strconv"
	"syscall"
)

// keepDescriptors has no program that slipway starts get a descriptor which slipway's own caller had left open: a plugin would keep it, and pass it on into
// containers. Where the system does not list them, they are what they were.
func keepDescriptors() {
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
