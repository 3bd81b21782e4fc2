package conformance

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// shellsHere are the shells that the commands of Shell must do with. Those that a machine has by whatever name are all of them there are.
func shellsHere(t *testing.T) [][]string {
	t.Helper()
	all := [][]string{{"sh"}, {"dash"}, {"bash"}, {"busybox", "sh"}}
	for _, sh := range all {
		if _, err := exec.LookPath(sh[0]); err != nil {
			testkit.Lacking(t, "%v (Debian's packages are dash, bash and busybox-static)", err)
		}
	}
	return all
}

// plainSignals lets programs begin with these signals as they are for most, even if this one's caller has them ignored: what is handled here
// is no more ignored there.
func plainSignals(t *testing.T) {
	t.Helper()
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGHUP, syscall.SIGINT)
	t.Cleanup(func() { signal.Stop(ch) })
}

// ready starts a command by a shell, in a group of its own, and awaits the word.
func ready(t *testing.T, sh []string, c Cmd) (cmd *exec.Cmd, out *bufio.Reader) {
	t.Helper()
	cmd = exec.CommandContext(testkit.Context(t), sh[0], append(sh[1:len(sh):len(sh)], c.Args...)...)
	inOwnGroup(cmd)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out = bufio.NewReader(stdout)
	if line, err := out.ReadString('\n'); line != "ready\n" || err != nil {
		t.Fatalf("it said %q (%v)", line, err)
	}
	return cmd, out
}

// TestSleepIsOneProcess: what says "ready" has no child, neither then nor later, for a child would get a part of each signal.
func TestSleepIsOneProcess(t *testing.T) {
	for _, sh := range shellsHere(t) {
		cmd, _ := ready(t, sh, Shell{}.Sleep())
		pid := cmd.Process.Pid
		testkit.Until(t, strings.Join(sh, " ")+" makes way for sleep", func() bool {
			children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
			if err != nil || len(children) > 0 {
				t.Fatalf("%q: the children after \"ready\" are %q (%v)", sh, children, err)
			}
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			return err == nil && string(line) == "sleep\x003600\x00"
		})
		killGroup(cmd)
		cmd.Wait()
	}
}

// TestSignalsAtOnce: from "ready" on no signal to the group is lost, and none is taken for another.
func TestSignalsAtOnce(t *testing.T) {
	plainSignals(t)
	for _, sh := range shellsHere(t) {
		for name, number := range map[sdk.Signal]syscall.Signal{sdk.HUP: 1, sdk.INT: 2, sdk.USR1: 10, sdk.USR2: 12, sdk.TERM: 15} {
			t.Run(fmt.Sprintf("%s-%s", strings.Join(sh, "-"), name), func(t *testing.T) {
				for range testkit.Times(3, 2000) {
					cmd, _ := ready(t, sh, Shell{}.Sleep())
					syscall.Kill(-cmd.Process.Pid, number)
					cmd.Wait()
					if got := cmd.ProcessState.Sys(); got != syscall.WaitStatus(number) {
						t.Errorf("what sleeps ended with %v", cmd.ProcessState)
					}
				}
				for range testkit.Times(3, 500) {
					cmd, out := ready(t, sh, Shell{}.Trap(name, 9))
					syscall.Kill(-cmd.Process.Pid, number)
					rest, err := io.ReadAll(out)
					cmd.Wait()
					if cmd.ProcessState.ExitCode() != 9 || string(rest) != "caught\n" || err != nil {
						t.Errorf("what handles it ended with %v and said %q (%v)", cmd.ProcessState, rest, err)
					}
				}
			})
		}
	}
}
