package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDescriptorsLeftOpen: a plugin has three descriptors of its host's, whatever the program that embeds the host has open and not marked close-on-exec. There nothing changes.
func TestDescriptorsLeftOpen(t *testing.T) {
	dir := t.TempDir()
	var left []int
	for i := range 4 { // among those that are marked, as all are that Go opens
		fd, err := unix.Open(filepath.Join(dir, fmt.Sprint("left-open", i)), unix.O_CREAT|unix.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		left = append(left, fd)
	}
	high, err := unix.FcntlInt(uintptr(left[0]), unix.F_DUPFD, 500)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(high)
	left = append(left, high)

	p, _ := launch(t, nil)
	session(t, p)
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.State().PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range fds {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", p.State().PID, e.Name()))
		if filepath.Dir(to) == dir {
			t.Errorf("the plugin has %s open, as %s", to, e.Name())
		}
	}
	if len(fds) < 3 {
		t.Errorf("the plugin has %d descriptors", len(fds))
	}
	for _, fd := range left {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			t.Errorf("descriptor %d of this process has other flags than before: %#x, %v", fd, flags, err)
		}
	}
}
