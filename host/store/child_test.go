package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

// The environment that makes the test program another host.
const (
	childMode = "SLIPWAY_STORE_TEST_MODE"
	childDir  = "SLIPWAY_STORE_TEST_DIR"
)

// child is the other process: "hold" opens the store and waits, "write" also
// writes until it is killed, and prints every id after its Update returned.
func child(mode, dir string) int {
	s, err := Open(context.Background(), dir, Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	defer s.Close()
	fmt.Println("open")
	if mode == "hold" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	var out sync.Mutex
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("p%d-%d-%d", os.Getpid(), g, i)
				// Two rows: half of an update must never be found.
				err := s.Update(context.Background(), Durability(i%2), func(tx *Tx) error {
					if err := tx.PutProcess(Process{ID: id, Container: id}); err != nil {
						return err
					}
					return tx.PutContainer(Container{ID: id, Owner: id})
				})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(4)
				}
				out.Lock()
				fmt.Println(id)
				out.Unlock()
			}
		})
	}
	wg.Wait()
	return 0
}

func startChild(t *testing.T, mode, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childMode+"="+mode, childDir+"="+dir)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || lines.Text() != "open" {
		t.Fatalf("the child did not open the store (%v)", cmd.Wait())
	}
	return cmd, lines
}

func TestLockOfAnotherProcessEndsWithIt(t *testing.T) {
	dir := t.TempDir()
	cmd, _ := startChild(t, "hold", dir)
	_, err := Open(t.Context(), dir, Options{})
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != cmd.Process.Pid {
		t.Fatalf("open beside process %d: %v", cmd.Process.Pid, err)
	}
	look, err := OpenReadOnly(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer look.Close()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	mustOpen(t, dir)
}

// TestLockIsGivenBack: a process that was forked, and has not executed its program yet, has the lock's file open as well. It does not keep the directory.
func TestLockIsGivenBack(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fork := exec.CommandContext(t.Context(), "cat")
	fork.ExtraFiles = []*os.File{s.lock}
	stdin, err := fork.StdinPipe()
	if err := errors.Join(err, fork.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(stdin.Close(), fork.Wait()); err != nil {
			t.Error(err)
		}
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, dir)
}

func TestKillLosesNothingThatWasAnswered(t *testing.T) {
	rounds := testkit.Times(3, 12)
	dir := t.TempDir()
	var printed []string
	for round := range rounds {
		cmd, lines := startChild(t, "write", dir)
		// Killed after a random number of answers, then a random moment later.
		for range rand.IntN(300) + 1 {
			if !lines.Scan() {
				t.Fatal("the child ended by itself")
			}
			printed = append(printed, lines.Text())
		}
		kill := time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		for lines.Scan() {
			printed = append(printed, lines.Text())
		}
		_ = cmd.Wait()
		kill.Stop()
		s := mustOpen(t, dir)
		var rows []Container
		var processes []Process
		mustView(t, s, func(tx *Tx) (err error) {
			if rows, err = tx.Containers(ContainerFilter{}); err != nil {
				return err
			}
			processes, err = tx.Processes(ProcessFilter{})
			return err
		})
		found := map[string]int{}
		for _, c := range rows {
			found[c.ID]++
		}
		for _, p := range processes {
			found[p.ID]++
		}
		for id, n := range found {
			if n != 2 {
				t.Errorf("round %d: half of %s was stored", round, id)
			}
		}
		missing := slices.DeleteFunc(slices.Clone(printed), func(id string) bool { return found[id] == 2 })
		if len(missing) > 0 {
			t.Fatalf("round %d: %d of %d answered updates are lost, the first is %s", round, len(missing), len(printed), strconv.Quote(missing[0]))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d answered updates found after %d kills", len(printed), rounds)
}
