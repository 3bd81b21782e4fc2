//go:build linux

package onrunc

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// bare is the floor: "runc exec" of the command itself.
func (b *box) bare(argv ...string) {
	b.t.Helper()
	out, in, err := os.Pipe()
	b.check(err)
	defer out.Close()
	done := make(chan error, 1)
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{out}, make([]byte, 64<<10))
		done <- err
	}()
	err = b.engine.Exec(b.t.Context(), string(b.id), engine.Command{Args: argv}, nil, in, in)
	in.Close()
	b.check(err)
	b.check(<-done)
}

// BenchmarkStartToExit is the time from the start of a command to its exit being known, with the bare runc exec of the same command as the floor in
// the same run: through a relay that is open, and through one that is opened for it.
func BenchmarkStartToExit(b *testing.B) {
	box := newBox(b, setting{})
	spec := sdk.ProcessSpec{Path: "/bin/true"}
	var open, fresh, floor time.Duration
	for b.Loop() {
		at := time.Now()
		box.bare("/bin/true")
		floor += time.Since(at)
		at = time.Now()
		box.run(spec)
		open += time.Since(at)

		old := box.Driver
		box.Driver = shim.New(box.exec, shim.Options{})
		at = time.Now()
		box.run(spec)
		fresh += time.Since(at)
		box.check(box.Close())
		box.Driver = old
	}
	n := float64(b.N)
	b.ReportMetric(floor.Seconds()*1e3/n, "ms/bare-exec")
	b.ReportMetric(open.Seconds()*1e3/n, "ms/open-relay")
	b.ReportMetric(fresh.Seconds()*1e3/n, "ms/fresh-relay")
	b.ReportMetric(open.Seconds()/floor.Seconds(), "open/bare")
	b.ReportMetric(fresh.Seconds()/floor.Seconds(), "fresh/bare")
}

// BenchmarkFirstExec is a step in a container that has only just been made: the exec that leaves the keeper behind is its relay, too.
func BenchmarkFirstExec(b *testing.B) {
	var first, floor time.Duration
	for b.Loop() {
		b.StopTimer()
		c := newContainer(b, setting{initMode: true})
		b.StartTimer()
		at := time.Now()
		c.bare("/bin/true")
		floor += time.Since(at)
		at = time.Now()
		_, err := c.Start(b.Context(), c.id)
		c.check(err)
		c.run(sdk.ProcessSpec{Path: "/bin/true"})
		first += time.Since(at)
	}
	b.ReportMetric(floor.Seconds()*1e3/float64(b.N), "ms/bare-exec")
	b.ReportMetric(first.Seconds()*1e3/float64(b.N), "ms/first-exec")
	b.ReportMetric(first.Seconds()/floor.Seconds(), "first/bare")
}

const outputBytes = 1 << 30

// BenchmarkOutput is a gibibyte of output, journalled and acknowledged, beside that of a bare exec into a pipe.
func BenchmarkOutput(b *testing.B) {
	box := newBox(b, setting{})
	command := []string{"/bin/dd", "if=/dev/zero", "bs=1M", "count=" + strconv.Itoa(outputBytes>>20), "status=none"}
	var ours, floor time.Duration
	for b.Loop() {
		at := time.Now()
		box.bare(command...)
		floor += time.Since(at)
		at = time.Now()
		id := box.start(sdk.ProcessSpec{Path: command[0], Args: command[1:]})
		got := 0
		box.check(box.FollowProcess(b.Context(), box.id, id, 0, sdk.Follow{Output: func(records []sdk.Record) error {
			for _, r := range records {
				got += len(r.Data)
			}
			return nil
		}}))
		ours += time.Since(at)
		if got < outputBytes { // and what dd has to say
			b.Fatalf("%d bytes", got)
		}
	}
	mib := float64(outputBytes>>20) * float64(b.N)
	b.ReportMetric(mib/floor.Seconds(), "MiB/s-bare")
	b.ReportMetric(mib/ours.Seconds(), "MiB/s-shim")
	b.ReportMetric(floor.Seconds()/ours.Seconds(), "shim/bare")
}

// BenchmarkMemory tells what the shim keeps resident: the supervisor alone, each process's monitor, and what each finished one leaves.
func BenchmarkMemory(b *testing.B) {
	const running, finished = 50, 500
	for b.Loop() {
		c := newBox(b, setting{})
		c.run(sdk.ProcessSpec{Path: "/bin/true"})
		idle := c.resident("serve")
		ids := make([]sdk.ProcessID, running)
		for i := range ids {
			ids[i] = c.start(sdk.ProcessSpec{Path: "/bin/sleep", Args: []string{"1000"}})
		}
		busy, monitors := c.resident("serve"), c.resident("monitor")
		for _, id := range ids {
			c.check(c.SignalProcess(b.Context(), c.id, id, sdk.KILL))
			c.follow(id)
		}
		before := c.resident("serve")
		for range finished {
			c.run(sdk.ProcessSpec{Path: "/bin/true"})
		}
		after := c.resident("serve")
		b.ReportMetric(idle.kib/1024, "MiB/supervisor")
		b.ReportMetric(idle.anonymous/1024, "MiB/supervisor-private")
		b.ReportMetric(idle.threads, "threads/supervisor")
		b.ReportMetric(monitors.kib/1024/running, "MiB/monitor")
		b.ReportMetric(monitors.anonymous/1024/running, "MiB/monitor-private")
		b.ReportMetric(monitors.threads/running, "threads/monitor")
		b.ReportMetric((busy.kib-idle.kib)/running, "KiB/running-process")
		b.ReportMetric((after.kib-before.kib)/finished, "KiB/finished-process")
	}
}

// usage is what processes have in memory, in KiB: all, and what is not the program's file, which they share.
type usage struct{ kib, anonymous, threads float64 }

// resident sums up the container's processes of the program with that verb.
func (b *box) resident(verb string) usage {
	b.t.Helper()
	info, err := b.engine.State(testkit.Context(b.t), string(b.id))
	b.check(err)
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", info.PID))
	b.check(err)
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	b.check(err)
	var u usage
	for _, name := range names {
		dir := filepath.Dir(name)
		line, _ := os.ReadFile(name)
		args := strings.Split(string(line), "\x00")
		theirs, _ := os.Readlink(filepath.Join(dir, "ns/pid"))
		if theirs != ns || len(args) < 2 || args[1] != verb {
			continue
		}
		status, _ := os.ReadFile(filepath.Join(dir, "status"))
		for line := range strings.Lines(string(status)) {
			f := strings.Fields(line)
			if len(f) < 2 {
				continue
			}
			n, _ := strconv.ParseFloat(f[1], 64)
			switch f[0] {
			case "VmRSS:":
				u.kib += n
			case "RssAnon:":
				u.anonymous += n
			case "Threads:":
				u.threads += n
			}
		}
	}
	return u
}
