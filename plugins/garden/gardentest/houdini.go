//go:build linux

package gardentest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// Houdini is Concourse's Garden server without isolation: what runs in its containers is root on this machine. It shows that a client gets along
// with another server's wire, and no more.
//
// It destroys data. A container without a rootfs is not to be made at all: its end empties every volume that is mounted in it. One with a
// rootfs binds the machine's /proc, /dev and /sys into that directory and leaves them there; so Houdini has a mount namespace of its own, in which they are
// never seen from outside, and Root, a throw-away directory, is the only one to be named. Mount no volume that matters, and make no mounts for it: it
// sees none that come after its start.
type Houdini struct {
	Garden string // "tcp://127.0.0.1:PORT"
	Root   string // a directory with the content of Busybox's rootfs, for containers: "raw://" + Root

	dir   string
	lock  *os.File
	proc  *process
	api   *api
	space string // its mount namespace, once it is known to be one of its own
}

// StartHoudini starts a Houdini, waits until it answers, and clears it away when the test ends. It skips the test where Start does.
func StartHoudini(t testing.TB) *Houdini {
	t.Helper()
	p := find(t, Options{})
	image := Busybox(t)
	ctx := testkit.Context(t)
	sweep(ctx, t)
	dir, lock, err := makeDir()
	if err != nil {
		t.Fatalf("gardentest: %v", err)
	}
	h := &Houdini{dir: dir, lock: lock, Root: filepath.Join(dir, "image", "rootfs")}
	t.Cleanup(func() { h.cleanUp(t) })
	if err := unpack(filepath.Join(dir, "image"), image); err != nil {
		t.Fatalf("gardentest: image: %v", err)
	}
	if err := h.first(ctx, p.houdini); err != nil {
		t.Fatalf("gardentest: houdini: %v", err)
	}
	return h
}

// first starts it, again on other ports if one was taken meanwhile.
func (h *Houdini) first(ctx context.Context, bin string) error {
	for try := 1; ; try++ {
		chosen, err := freePorts()
		if err != nil {
			return err
		}
		h.Garden, h.api = "tcp://"+local(chosen[0]), newAPI("tcp", local(chosen[0]))
		// Its default is to serve on all addresses, and to destroy idle containers.
		h.proc, err = startApart(h.dir, bin, "-listenNetwork", "tcp", "-listenAddr", local(chosen[0]), "-debugListenAddress", "127.0.0.1",
			"-debugListenPort", strconv.Itoa(chosen[1]), "-depot", filepath.Join(h.dir, "depot"), "-containerGraceTime", "0")
		if err != nil {
			return err
		}
		if h.space, err = apart(h.proc.pid()); err != nil {
			return err
		}
		err = h.proc.await(ctx, h.api.ping)
		if err == nil || !errors.Is(err, errEnded) || try == portTries || portsFree(chosen[:2]...) {
			return err
		}
	}
}

// apart gives a process's mount namespace, and an error if that is the one of this process.
func apart(pid int) (string, error) {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return "", err
	}
	its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return "", err
	}
	if own == its {
		return "", errors.New("it has no mount namespace of its own, and is not to be used")
	}
	return its, nil
}

// cleanUp kills Houdini, for its own way to end destroys containers, and with it all who keep its mount namespace.
func (h *Houdini) cleanUp(t testing.TB) {
	defer h.lock.Close()
	ctx, cancel := cleaning(t)
	defer cancel()
	if h.proc != nil {
		if t.Failed() {
			t.Logf("gardentest: Houdini said last:\n%s", h.proc.log.tail(failureLines))
		}
		h.proc.kill()
	}
	if h.space != "" {
		err := killAll(ctx, func(proc string) bool {
			space, err := os.Readlink(filepath.Join(proc, "ns", "mnt"))
			return err == nil && space == h.space
		})
		if err != nil {
			t.Errorf("gardentest: %v", err)
			return // what is mounted there must not be removed
		}
	}
	if err := remove(h.dir); err != nil {
		t.Errorf("gardentest: clean-up: %v", err)
	}
}
