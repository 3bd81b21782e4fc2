package main

import (
	"bufio"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestSystem holds the verbs of Linux to what they say.
func TestSystem(t *testing.T) {
	probe := build(t)
	inherited := strings.Fields(ask(t, probe, "", "descriptors").stdout) // of whoever runs the test, too
	if len(inherited) < 3 || !slices.Equal(inherited[:3], []string{"0", "1", "2"}) {
		t.Errorf("descriptors: %q", inherited)
	}
	if got := ask(t, probe, "", "seq", "hold", "3", ";", "descriptors"); len(strings.Fields(got.stdout)) != len(inherited)+3 {
		t.Errorf("held descriptors: %+v, want 3 more than %q", got, inherited)
	}
	if got := ask(t, probe, "", "seq", "spawn", "session", "print", "a", ";", "spawn", "quiet,orphan", "print", "b", ";", "wait", ";", "print", "c"); got.stdout != "ac" {
		t.Errorf("spawn and wait: %+v", got)
	}
	if got := ask(t, probe, "", "orphans", "45"); got.stdout != "born\n" || got.code != 0 {
		t.Errorf("orphans: %+v", got)
	}
	if got := ask(t, probe, "", "processes"); !strings.Contains(got.stdout, `"args":["`+probe+`","processes"]`) {
		t.Errorf("processes: %+v", got)
	}
	if got := ask(t, probe, "", "tty"); !strings.Contains(got.stdout, `"terminals":[false,false,false]`) {
		t.Errorf("tty: %+v", got)
	}
	got := ask(t, probe, "", "seq", "ignore", "TERM", "HUP", ";", "spawn", "-", "inner", "umask", ",", "umask", ";", "wait", ";", "cat-file", "/proc/self/status")
	// Beyond 31 are those of the C library, which callers such as make leave ignored.
	_, ignored, _ := strings.Cut(got.stdout, "SigIgn:\t")
	mask, err := strconv.ParseUint(ignored[:min(16, len(ignored))], 16, 64)
	if !strings.HasPrefix(got.stdout, "0022\n0000\n") || err != nil || mask&(1<<31-1) != 0x4001 {
		t.Errorf("an inner sequence, and ignored signals: %+v, %v", got, err)
	}
}

// TestSignals: on a program that is not told to handle them, signals have the effect that they have on any other.
func TestSignals(t *testing.T) {
	probe := build(t)
	handled := make(chan os.Signal, 1) // what is handled here is not ignored in what is started, even if this one's caller has it ignored
	signal.Notify(handled, syscall.SIGHUP, syscall.SIGINT)
	defer signal.Stop(handled)
	for name, number := range map[string]syscall.Signal{"HUP": 1, "INT": 2, "QUIT": 3, "USR1": 10, "USR2": 12, "TERM": 15} {
		for _, tt := range []struct {
			args []string
			rest string
			want syscall.WaitStatus
		}{
			{[]string{"sleep"}, "", syscall.WaitStatus(number)},
			{[]string{"trap", name, "7"}, "caught\n", 7 << 8},
		} {
			cmd := exec.CommandContext(t.Context(), probe, tt.args...)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			out := bufio.NewReader(stdout)
			if line, err := out.ReadString('\n'); err != nil || line != "ready\n" {
				t.Fatalf("%q says %q, %v", tt.args, line, err)
			}
			if err := cmd.Process.Signal(number); err != nil {
				t.Fatal(err)
			}
			var rest strings.Builder
			out.WriteTo(&rest)
			cmd.Wait()
			if got := cmd.ProcessState.Sys(); got != tt.want || rest.String() != tt.rest {
				t.Errorf("%q after %s: %v and %q, want %v and %q", tt.args, name, got, rest.String(), tt.want, tt.rest)
			}
		}
	}
}
