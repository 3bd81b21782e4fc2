//go:build linux

package onrunc

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestUsersOpenTheirPipesByName: scripts write to /dev/stderr.
func TestUsersOpenTheirPipesByName(t *testing.T) {
	b := newBox(t, setting{})
	s := sh("echo one >/proc/self/fd/1; echo two >/proc/self/fd/2; cat /proc/self/fd/0")
	s.User = "alice"
	if r := b.run(s); r.stdout != "one\n" || r.stderr != "two\n" || r.exit.Code != 0 {
		t.Errorf("%+v", r)
	}
}

// TestKillOfAProcessWithoutItsFirstThread: /proc calls it a zombie, and it runs on.
func TestKillOfAProcessWithoutItsFirstThread(t *testing.T) {
	b := newBox(t, setting{})
	dir := t.TempDir()
	b.check(os.WriteFile(filepath.Join(dir, "main.go"), []byte(`package main

import (
	"fmt"
	"runtime"
	"syscall"
)

func init() { runtime.LockOSThread() }

func main() {
	go func() {
		fmt.Println("on")
		select {}
	}()
	fmt.Println("up")
	syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
}
`), 0o644))
	b.check(testkit.Build(filepath.Join(b.root, "bin", "headless"), filepath.Join(dir, "main.go")))
	id := b.start(sdk.ProcessSpec{Path: "/bin/headless"})
	testkit.Until(t, "its first thread has ended", func() bool {
		return b.run(sh("grep -l '^State:.Z' $(grep -l headless /proc/[0-9]*/comm | sed s/comm/status/)")).stdout != ""
	})
	b.check(b.SignalProcess(t.Context(), b.id, id, sdk.KILL))
	if r := b.follow(id); r.exit.Signal != sdk.KILL {
		t.Errorf("%+v", r.exit)
	}
}

// TestTermEndsAKeeperWhoseJournalIsFull: nobody will ever make room in it.
func TestTermEndsAKeeperWhoseJournalIsFull(t *testing.T) {
	b := newBox(t, setting{initMode: true})
	s := sh("echo up >/tmp/up; exec yes")
	s.Spill, s.WhenFull = 4096, sdk.BlockWriter
	b.start(s)
	testkit.Until(t, "it writes", func() bool { _, err := os.Stat(filepath.Join(b.root, "tmp/up")); return err == nil })
	keeper := b.find("daemon")
	if len(keeper) != 1 {
		t.Fatalf("keepers: %+v", keeper)
	}
	b.check(unix.Kill(keeper[0].pid, unix.SIGTERM))
	testkit.Until(t, "the keeper has ended", func() bool { return len(b.find("daemon")) == 0 })
	all, err := b.ListProcesses(t.Context(), b.id)
	b.check(err)
	if len(all) != 1 || all[0].State == sdk.ProcessRunning || all[0].Exit != nil && all[0].Exit.Code == 0 {
		t.Errorf("%+v", all)
	}
}

// TestDeadKeeperSealsNothing: a command may kill its keeper and its monitor at once, and write on.
func TestDeadKeeperSealsNothing(t *testing.T) {
	b := newBox(t, setting{initMode: true})
	// The kill may overtake the answer to the start: then the answer is lost, or comes from the dead keeper's records.
	_, err := b.tryStart(sh("kill -9 -1; while :; do sleep 1; done"))
	if err != nil && !errors.Is(err, sdk.Unavailable) && !errors.Is(err, sdk.ReasonDead) {
		t.Fatal(err)
	}
	testkit.Until(t, "the keeper is dead", func() bool { return len(b.find("daemon")) == 0 })
	if err := b.Quiesce(t.Context(), b.id); !errors.Is(err, sdk.ReasonInUse) {
		t.Errorf("got %v", err)
	}
}

// TestLeftoversThatRunTheShimsProgram are leftovers like all others.
func TestLeftoversThatRunTheShimsProgram(t *testing.T) {
	b := newBox(t, setting{})
	id := b.start(sh("setsid /slipway/shim pause </dev/null >/dev/null 2>&1 & sleep 1000"))
	testkit.Until(t, "it is there", func() bool { return len(b.find("pause")) == 1 })
	b.check(unix.Kill(b.monitors()[0].pid, unix.SIGKILL))
	var r result
	if err := b.FollowProcess(t.Context(), b.id, id, 0, r.follow()); !errors.Is(err, sdk.ReasonAbandoned) {
		t.Errorf("got %v", err)
	}
	if left := b.find("pause"); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	b.check(b.Quiesce(t.Context(), b.id))
}
