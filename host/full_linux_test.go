package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
)

// smallDisk mounts a file system of 16 MiB for a state directory.
func smallDisk(t testing.TB) string {
	t.Helper()
	if os.Getuid() != 0 {
		testkit.Lacking(t, "root, to mount a small tmpfs")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16777216,mode=0700"); err != nil {
		testkit.Lacking(t, "the right to mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillDisk leaves no room on the disk of a host's state directory, nor in the log of its store. It gives the file to remove for there to be room again.
func fillDisk(t testing.TB, h *Host, dir string) (other string) {
	t.Helper()
	other = filepath.Join(dir, "other")
	f, err := os.Create(other)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 64<<10); ; {
		if _, err := f.Write(block); err != nil {
			break
		}
	}
	size := 10_000
	for i := 0; ; i++ {
		err := h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error {
			return tx.PutRun(store.Run{ID: fmt.Sprint("x", i), Job: make([]byte, size)})
		})
		switch {
		case errors.Is(err, store.ErrFull) && size == 1:
			return other
		case errors.Is(err, store.ErrFull): // what is small may still fit
			size = 1
		case err != nil:
			t.Fatal(err)
		}
	}
}

// A full disk is cleaned up, and takes no worker away.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t)
	o := &hooked{Runtime: newMemory(t, "m")}
	h := openHost(t, o, Options{StateDir: dir}, "m")
	var cs []*Container
	for _, owner := range []string{"a", "b", "c"} {
		c, err := h.Container(t.Context(), owner, ContainerRequest{Outputs: []Output{{"o", "o"}}})
		if err != nil {
			t.Fatal(err)
		}
		cs = append(cs, c)
	}
	fillDisk(t, h, dir)
	for i, c := range cs {
		if err := c.Destroy(testkit.Context(t)); err != nil {
			t.Errorf("destroying container %d on a full disk: %v", i, err)
		}
	}
	w, _ := h.worker("m")
	for range 2 { // when the second one begins, the first one is over
		before := o.calls("status")
		w.lookNow()
		testkit.Until(t, "it is looked at", func() bool { return o.calls("status") > before })
	}
	if r := h.Workers()[0]; !r.Up {
		t.Errorf("the full disk took the worker away: %s", r.Why)
	}
}

// A step that runs, or has just ended, when the disk becomes full waits for room: whoever watches is told which disk it is, what becomes of the step and what to do, and
// once there is room the step has all that it wrote and made.
func TestStepOnAFullDisk(t *testing.T) {
	for _, c := range []struct {
		name, says string
		lines      int // that the command writes once the disk is full
	}{
		{"while it writes", whileRunning, 5000},
		{"once it has ended", whileSealing, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := smallDisk(t)
			h := openHost(t, newMemory(t, "m"), Options{StateDir: dir}, "m")
			stdin, goOn := io.Pipe()
			defer goOn.Close()
			events := make(chan Event, 1000)
			out := filepath.Join(t.TempDir(), "out")
			req := RunRequest{ID: "r", Stdin: stdin, Outputs: map[string]string{"o": out}, Events: func(e Event) { events <- e }, Job: parseJob(t, fmt.Sprintf(`
job "j" {
  step "s" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-ec", "read x; i=0; while [ $i -lt %d ]; do echo %s; i=$((i+1)); done; echo made > o/a"]
    }
  }
  output "o" { from = step.s.o }
}`, c.lines, strings.Repeat("x", 99)))}
			type end struct {
				res *RunResult
				err error
			}
			ended := make(chan end, 1)
			go func() {
				res, err := h.Run(testkit.Context(t), req)
				close(events)
				ended <- end{res, err}
			}()
			var p *Process
			var other string
			paused, resumed := false, false
			for e := range events {
				switch e.Kind {
				case EventStarted:
					p = e.Process
					<-p.stored // it is read from now on: what could not be stored would wait before anything is written to the command
					other = fillDisk(t, h, dir)
					if _, err := goOn.Write([]byte("\n")); err != nil {
						t.Error(err)
					}
				case EventPaused:
					for _, want := range []string{"the disk of the state directory " + dir + " is full", "make room on it, and this goes on by itself", c.says} {
						if !paused && !strings.Contains(e.Message, want) {
							t.Errorf("it is not told that %q: %s", want, e.Message)
						}
					}
					if !paused {
						if err := os.Remove(other); err != nil {
							t.Error(err)
						}
					}
					paused = true
				case EventResumed:
					resumed = paused
				}
			}
			e := <-ended
			if e.err != nil || !e.res.Succeeded() {
				t.Fatalf("%v, %v", e.res.Failure(), e.err)
			}
			if !paused || !resumed {
				t.Errorf("paused %t, resumed %t", paused, resumed)
			}
			if n := len(output(t, p)); n != c.lines*100 {
				t.Errorf("%d bytes of output, want %d", n, c.lines*100)
			}
			if b, err := os.ReadFile(filepath.Join(out, "a")); err != nil || string(b) != "made\n" {
				t.Errorf("%q %v", b, err)
			}
		})
	}
}

// A step that begins when the disk is full waits for room, so that what its run has made so far is not lost. What is refused is a new run.
func TestStepBeginsOnAFullDisk(t *testing.T) {
	dir := smallDisk(t)
	h := openHost(t, newMemory(t, "m"), Options{StateDir: dir}, "m")
	later := parseJob(t, `
job "later" {
  step "s" {
    run { path = "true" }
  }
}`)
	var other, told string
	res, err := h.Run(testkit.Context(t), RunRequest{ID: "r", Events: func(e Event) {
		switch {
		case e.Kind == EventFinished && e.Step == "a":
			other = fillDisk(t, h, dir)
			if _, err := h.Run(t.Context(), RunRequest{ID: "later", Job: later}); !errors.Is(err, store.ErrFull) {
				t.Errorf("a new run on a full disk: %v", err)
			}
		case e.Kind == EventPaused && e.Step == "b" && told == "":
			told = e.Message
			if err := os.Remove(other); err != nil {
				t.Error(err)
			}
		}
	}, Job: parseJob(t, `
job "j" {
  step "a" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-ec", "echo made > o/f"]
    }
  }
  step "b" {
    inputs = { o = step.a.o }
    run {
      path = "grep"
      args = ["made", "o/f"]
    }
  }
}`)})
	if err != nil || !res.Succeeded() {
		t.Fatalf("%v, %v", res.Failure(), err)
	}
	for _, want := range []string{"the disk of the state directory " + dir + " is full", "make room on it, and this goes on by itself", whileBeginning} {
		if !strings.Contains(told, want) {
			t.Errorf("it is not told that %q: %s", want, told)
		}
	}
}
