package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// mark is a variable that tells a process from all others of the machine.
type mark string

func newMark() mark { return mark("CF_MARK=" + string(sdk.NewToken())) }

// on gives a process the mark.
func (m mark) on(s *sdk.ProcessSpec) { s.Env = append(slices.Clone(s.Env), string(m)) }

// marked starts a process with a mark that has said "ready" and a newline, and waits. It is the same program all the time: one that makes way for another
// shows for a moment no variables at all.
func (c *C) marked(ctx context.Context, id sdk.ContainerID, m mark) sdk.ProcessID {
	return c.Started(ctx, id, c.Commands.Gate("ready\n", "", 0), WithStdin, m.on)
}

// processes gives the numbers of the processes on this machine that began with the mark. There are none where /proc does not show them: on another
// kind of system, to a user who may not look, and where a plugin's processes are none of the machine's.
func (m mark) processes() []int {
	return machineProcesses(func(dir string) bool {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		return err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return string(v) == string(m) })
	})
}

// machineProcesses gives the processes of which which is true of their directory below /proc.
func machineProcesses(which func(dir string) bool) (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && which(filepath.Join("/proc", e.Name())) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// firstBeside gives the number, on this machine, of the first process of the container that a process belongs to; ok is false where that has no
// processes of its own, or where nobody may look.
func firstBeside(pid int) (first int, ok bool) {
	space := func(dir string) string {
		link, err := os.Readlink(filepath.Join(dir, "ns/pid"))
		if err != nil {
			return ""
		}
		return link
	}
	own, its := space("/proc/self"), space(fmt.Sprintf("/proc/%d", pid))
	if own == "" || its == "" || own == its {
		return 0, false
	}
	firsts := machineProcesses(func(dir string) bool { return space(dir) == its && innerNumber(dir) == "1" })
	if len(firsts) != 1 {
		return 0, false
	}
	return firsts[0], true
}

// innerNumber is the number that a process has in its own container.
func innerNumber(dir string) string {
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return ""
	}
	numbers := statusOf(string(status))["NSpid"]
	if len(numbers) == 0 {
		return ""
	}
	return numbers[len(numbers)-1]
}

// kill kills a process of this machine, unless it is another one by now, which still then tells.
func kill(pid int, still func(pid int) bool) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer p.Release()
	if !still(pid) { // what FindProcess gives stays the same process from then on, where the system can do that
		return nil
	}
	if err := p.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// awaitNone waits until no process of this machine has the mark; ok is false if some had it to the end. Those are killed: nobody else would.
func (c *C) awaitNone(ctx context.Context, m mark) (ok bool) {
	ctx, cancel := context.WithTimeout(ctx, c.Patience(soonDead))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		left := m.processes()
		if len(left) == 0 {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			for _, pid := range left {
				if err := kill(pid, func(pid int) bool { return slices.Contains(m.processes(), pid) }); err != nil && !errors.Is(err, fs.ErrNotExist) {
					c.Logf("process %d is left on this machine: %v", pid, err)
				}
			}
			return false
		}
	}
}

// holds tells whether a text is somewhere in the files below a directory, and in which one. It looks at no more than there is time for.
func holds(dir, text string) (file string, err error) {
	const mostFiles, mostBytes, mostOfOne = 20_000, 256 << 20, 8 << 20
	files, bytes := 0, 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
			return err
		case err != nil || !d.Type().IsRegular():
			return nil
		case files > mostFiles || bytes > mostBytes:
			return fs.SkipAll
		}
		content, err := readSome(path, mostOfOne)
		files, bytes = files+1, bytes+len(content)
		if err == nil && strings.Contains(content, text) {
			file = path
			return fs.SkipAll
		}
		return nil // what cannot be read is gone, or nobody's to look at
	})
	return file, err
}

func readSome(path string, most int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var b strings.Builder
	_, err = io.Copy(&b, io.LimitReader(f, most))
	return b.String(), err
}
