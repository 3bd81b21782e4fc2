package supervisor

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// abilities are what this container lets its keeper do.
type abilities struct {
	features []sdk.Feature
	notes    []string
	users    bool
	tty      error // why not
}

// findAbilities tries what there is.
func findAbilities() abilities {
	var a abilities
	if a.users = maySwitchUsers(); a.users {
		a.features = append(a.features, sdk.FeatureUsers)
	} else {
		a.notes = append(a.notes, "processes run as user "+strconv.Itoa(os.Geteuid())+", for the keeper may not become another one")
	}
	master, slave, err := openTTY(sdk.TTY{})
	if a.tty = err; err == nil {
		master.Close()
		slave.Close()
		a.features = append(a.features, sdk.FeatureTTY, sdk.FeatureTTYResize)
	} else {
		a.notes = append(a.notes, "there are no terminals: "+err.Error())
	}
	if oomKills() >= 0 {
		a.features = append(a.features, sdk.FeatureExitOOM)
	} else {
		a.notes = append(a.notes, "the container's memory events cannot be read, so no exit is told to come of them")
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		a.notes = append(a.notes, "/proc is not mounted: KILL reaches only the group of a process, not all that it started")
	}
	return a
}

// check refuses what is not there.
func (a abilities) check(spec sdk.ProcessSpec) error {
	if spec.User != "" && !a.users {
		return sdk.NewUnsupported(sdk.FeatureUsers)
	}
	if spec.TTY != nil && a.tty != nil {
		return sdk.NewUnsupported(sdk.FeatureTTY)
	}
	return nil
}

func maySwitchUsers() bool {
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return false
	}
	const want = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
	return data[0].Effective&want == want
}

// oomKills is how often the kernel has killed in this container because its memory had run out; negative: it cannot be told.
func oomKills() int64 {
	own := ownCgroups()
	for _, name := range []string{
		"/sys/fs/cgroup" + own[""] + "/memory.events", "/sys/fs/cgroup/memory.events",
		"/sys/fs/cgroup/memory" + own["memory"] + "/memory.oom_control", "/sys/fs/cgroup/memory/memory.oom_control",
	} {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if text, ok := strings.CutPrefix(line, "oom_kill "); ok {
				if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
					return n
				}
			}
		}
	}
	return -1
}

// ownCgroups are the paths of this process's control groups by controller. In a container they may be those outside; then the
// container's mounts begin there.
func ownCgroups() map[string]string {
	own := make(map[string]string)
	b, _ := os.ReadFile("/proc/self/cgroup")
	for line := range bytes.Lines(b) {
		if f := strings.SplitN(strings.TrimSpace(string(line)), ":", 3); len(f) == 3 {
			for c := range strings.SplitSeq(f[1], ",") {
				own[c] = f[2]
			}
		}
	}
	return own
}
