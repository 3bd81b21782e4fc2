//go:build linux

package engine

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// unprivileged are what docker gives a container.
var unprivileged = []string{
	"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD", "CAP_NET_BIND_SERVICE",
	"CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
}

// capabilityNames are in the order of the kernel's numbers.
var capabilityNames = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_IPC_LOCK",
	"CAP_IPC_OWNER", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_SYS_PACCT", "CAP_SYS_ADMIN",
	"CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE", "CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE",
	"CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL", "CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG", "CAP_WAKE_ALARM",
	"CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE",
}

// capabilities leaves out what this process cannot give. None are inheritable, so that a user who is not root has none.
func capabilities(privileged bool) (*specs.LinuxCapabilities, error) {
	own, err := ownCapabilities()
	if err != nil {
		return nil, err
	}
	wanted := unprivileged
	if privileged {
		wanted = capabilityNames
	}
	var given []string
	for _, c := range wanted {
		if own[c] {
			given = append(given, c)
		}
	}
	return &specs.LinuxCapabilities{Bounding: given, Effective: given, Permitted: given}, nil
}

func ownCapabilities() (map[string]bool, error) {
	f, err := os.Open("/proc/thread-self/status") // of the thread that asks: another one may have given rights away
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		hex, ok := strings.CutPrefix(lines.Text(), "CapPrm:")
		if !ok {
			continue
		}
		bits, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("/proc/thread-self/status: %w", err)
		}
		own := make(map[string]bool)
		for i, name := range capabilityNames {
			own[name] = bits&(1<<i) != 0
		}
		return own, nil
	}
	return nil, fmt.Errorf("/proc/thread-self/status does not tell this thread's capabilities")
}
