package monitor

import (
	"os"
	"strconv"
	"strings"
)

const (
	oomFile = "/proc/self/oom_score_adj"
	// oomMore is how much rather the command is killed than its keeper when memory runs out.
	oomMore = 500
	oomMost = 1000
)

// preferForOOM raises this process's own score, for the command to inherit, until the function that it returns is called. Lowering it
// again to where it was takes no privilege.
func preferForOOM() (restore func()) {
	b, err := os.ReadFile(oomFile)
	if err != nil {
		return func() {}
	}
	was := strings.TrimSpace(string(b))
	n, err := strconv.Atoi(was)
	if err != nil || os.WriteFile(oomFile, []byte(strconv.Itoa(min(n+oomMore, oomMost))), 0) != nil {
		return func() {}
	}
	return func() { _ = os.WriteFile(oomFile, []byte(was), 0) }
}
