package shell

import (
	"strconv"
	"strings"
)

// signals are the ones that scripts can name.
var signals = [...]struct {
	number int
	name   string
}{
	{1, "HUP"}, {2, "INT"}, {3, "QUIT"}, {6, "ABRT"}, {9, "KILL"}, {10, "USR1"}, {12, "USR2"}, {13, "PIPE"}, {14, "ALRM"}, {15, "TERM"},
	{17, "CHLD"}, {18, "CONT"}, {19, "STOP"}, {20, "TSTP"}, {21, "TTIN"}, {22, "TTOU"}, {23, "URG"}, {28, "WINCH"},
}

// signalNamed finds a signal by name, with or without SIG, or number.
func signalNamed(s string) (number int, name string, ok bool) {
	s = strings.TrimPrefix(strings.ToUpper(s), "SIG")
	n, err := strconv.Atoi(s)
	for _, sig := range signals {
		if sig.name == s || err == nil && n == sig.number {
			return sig.number, sig.name, true
		}
	}
	return 0, "", false
}

// harmless says whether a signal does nothing unless it is caught. What stops a
// process is a halt's, where it comes from outside of it; scripts cannot.
func harmless(name string) bool {
	switch name {
	case "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "WINCH":
		return true
	}
	return false
}

// killed is why a context was cancelled: a signal arrived.
type killed struct {
	number int
	name   string
}

func (k killed) Error() string { return "killed by SIG" + k.name }
func (k killed) status() int   { return 128 + k.number }
