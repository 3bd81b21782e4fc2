package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// maxSocketPath is what a socket's path may have on every Unix: 104 bytes on macOS, 108 on Linux, with a NUL.
	maxSocketPath = 103
	// socketName stands for the longest name that go-plugin gives to a socket.
	socketName = "plugin4294967295"
	dirPattern = "slipway-*"
	dirName    = "slipway-4294967295"
)

// newPrivateDir makes the directory of one process: 0700, with a path short enough for a socket in it.
func newPrivateDir(configured string) (string, error) {
	bases := []string{configured}
	if configured == "" {
		bases = []string{os.TempDir(), os.Getenv("XDG_RUNTIME_DIR"), "/tmp"}
	}
	var tried []string
	for _, base := range bases {
		if base == "" {
			continue
		}
		base, err := filepath.Abs(base)
		if err != nil {
			tried = append(tried, err.Error())
			continue
		}
		if n := len(filepath.Join(base, dirName, socketName)); n > maxSocketPath {
			tried = append(tried, fmt.Sprintf("%s is %d bytes too long for a socket in it", base, n-maxSocketPath))
			continue
		}
		dir, err := os.MkdirTemp(base, dirPattern)
		if err != nil {
			tried = append(tried, err.Error())
			continue
		}
		if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
			os.RemoveAll(dir)
			tried = append(tried, err.Error())
			continue
		}
		return dir, nil
	}
	return "", &Error{Reason: ReasonDirectory, Message: fmt.Sprintf(
		"no directory for the plugin's socket: %s; configure a short one that the host may write to", strings.Join(tried, "; "))}
}
