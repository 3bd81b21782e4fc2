package conformance

import (
	"context"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// processorCases check limits of processors. How fast something runs tells nothing on a machine that others use, too: the cases read what the kernel was told.
func processorCases() []Case {
	return []Case{{
		ID: "L02-cpu", Title: "where limits.cpu is named, a container's cgroup has the bound that was asked for, or a share that grows with it", Promises: []string{"14f"}, Level: Must, Profile: Linux,
		Needs: []sdk.Feature{sdk.FeatureLimitsCPU}, Env: []Requirement{EnvProbeLinux}, Run: runCPU,
		Doc: "Catches a limit that is taken and not kept: one step starves all others on its worker, and nobody sees why. Where containers show no cgroup of theirs, or have a kernel of their own, nothing can be said.",
	}}
}

// cpuLimit is what the cgroups of a container say of its processors, as far out as it sees them.
type cpuLimit struct {
	millis int64   // the tightest bound, in thousandths of a processor; zero: there is none
	share  float64 // the product of all weights; they mean something only beside those of another container of the worker
	seen   bool    // there was something to read
}

func runCPU(ctx context.Context, c *C) {
	const little, twice = 250, 500
	less, more := c.cpuLimit(ctx, little), c.cpuLimit(ctx, twice)
	if !less.seen || !more.seen {
		c.NotObservable("containers show no cgroup in which a limit of processors would be seen")
	}
	bound := func(l cpuLimit, asked int64) bool { return l.millis >= asked && l.millis < 2*asked } // a runtime may give more for what it needs itself
	if bound(less, little) && bound(more, twice) || more.share > less.share {
		return
	}
	c.Errorf("a limit holds", "containers with limits of %d and %d thousandths of a processor have the bounds %d and %d (0: none) and the weights %v and %v: neither a bound is what was asked for, nor does a weight grow with it",
		little, twice, less.millis, more.millis, less.share, more.share)
}

// cpuLimit reads the cgroups of a new container with a limit, from inside.
func (c *C) cpuLimit(ctx context.Context, millis int64) cpuLimit {
	id := c.Container(ctx, func(s *sdk.ContainerSpec) { s.Limits.CPUMillis = millis })
	read := func(file string) string {
		j := c.Exec(ctx, id, c.Commands.CatFile(file))
		if j.Exit.Code != 0 {
			return ""
		}
		return strings.TrimSpace(string(j.Stdout))
	}
	if c.suite.target.Local {
		const boot = "/proc/sys/kernel/random/boot_id"
		here, err := os.ReadFile(boot)
		if err != nil || read(boot) != strings.TrimSpace(string(here)) {
			return cpuLimit{} // a machine of its own, whose processors are limited outside of it
		}
	}
	return readCPULimit(read)
}

// readCPULimit reads the cgroups of whoever reads a file of the system; a file that is not there is empty.
func readCPULimit(read func(file string) string) cpuLimit {
	l := cpuLimit{share: 1}
	number := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0 // "max", -1 and what is not there bound nothing
		}
		return max(n, 0)
	}
	bound := func(quota, period int64) {
		if quota > 0 && period > 0 && (l.millis == 0 || quota*1000/period < l.millis) {
			l.millis = quota * 1000 / period
		}
	}
	weight := func(text string) {
		if n := number(text); n > 0 {
			l.seen, l.share = true, l.share*float64(n)
		}
	}
	for line := range strings.Lines(read("/proc/self/cgroup")) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, own, _ := strings.Cut(rest, ":")
		first, second := id == "0" && controllers == "", slices.Contains(strings.Split(controllers, ","), "cpu")
		for dir := own; first || second; dir = path.Dir(dir) { // the path may be one of outside, of which the container sees an inner part at best
			if first {
				if f := strings.Fields(read(path.Join("/sys/fs/cgroup", dir, "cpu.max"))); len(f) == 2 {
					l.seen = true
					bound(number(f[0]), number(f[1]))
				}
				weight(read(path.Join("/sys/fs/cgroup", dir, "cpu.weight")))
			} else {
				top := path.Join("/sys/fs/cgroup", "cpu", dir)
				bound(number(read(path.Join(top, "cpu.cfs_quota_us"))), number(read(path.Join(top, "cpu.cfs_period_us"))))
				weight(read(path.Join(top, "cpu.shares")))
			}
			if dir == "/" || dir == "." {
				break
			}
		}
	}
	return l
}
