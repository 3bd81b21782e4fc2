//go:build linux

package onrunc

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
)

// TestCannotBeExecuted has every kind of file that is no program. Codes 126 and 127 stay the commands' own.
func TestCannotBeExecuted(t *testing.T) {
	b := newBox(t, setting{})
	at := func(name string) string { return filepath.Join(b.root, name) }
	b.write("plain", "#!/bin/sh\n", 0o644)
	b.write("empty", "", 0o755)
	b.write("text", "echo no program\n", 0o755)
	b.write("no-interpreter", "#!/nowhere/sh\n", 0o755)
	b.write("bad-interpreter", "#!/etc/passwd\n", 0o755)
	b.write("dir-interpreter", "#!/etc\n", 0o755)
	b.write("self-interpreter", "#!/self-interpreter\n", 0o755)
	b.write("damaged", "\x7fELF\x02\x01\x01", 0o755)
	b.write("roots", "#!/bin/sh\n", 0o700)
	b.write("closed/tool", "#!/bin/sh\n", 0o755)
	b.check(os.Chmod(at("closed"), 0o700))
	b.check(os.Symlink("loop", at("loop")))
	b.check(os.Symlink("/nowhere", at("dangling")))
	b.check(syscall.Mkfifo(at("fifo"), 0o777))
	socket, err := net.Listen("unix", at("socket"))
	b.check(err)
	defer socket.Close()
	build(t, at("arm64"), "../../cmd", "GOARCH=arm64")
	dynamic, err := os.ReadFile("/bin/ls") // its loader is not in the container
	b.check(err)
	b.write("dynamic", string(dynamic), 0o755)
	b.says(sh("cp /bin/busybox /dev/shm/true && cp /bin/busybox /busy"), "")

	for name, c := range map[string]struct {
		path, user string
		reason     sdk.Reason
	}{
		"missing":                   {"/nowhere", "", sdk.ReasonExecutableNotFound},
		"missing, relative":         {"./nowhere", "", sdk.ReasonExecutableNotFound},
		"missing, sought":           {"nowhere", "", sdk.ReasonExecutableNotFound},
		"below a file":              {"/etc/passwd/sh", "", sdk.ReasonExecutableNotFound},
		"dangling":                  {"/dangling", "", sdk.ReasonExecutableNotFound},
		"long":                      {"/" + strings.Repeat("x/", 3000), "", sdk.ReasonExecutableNotFound},
		"loop":                      {"/loop", "", sdk.ReasonNotExecutable},
		"not executable":            {"/plain", "", sdk.ReasonNotExecutable},
		"not executable by user":    {"/roots", "alice", sdk.ReasonNotExecutable},
		"out of the user's reach":   {"/closed/tool", "alice", sdk.ReasonNotExecutable},
		"directory":                 {"/etc", "", sdk.ReasonNotExecutable},
		"directory, with slash":     {"/etc/", "alice", sdk.ReasonNotExecutable},
		"root directory":            {"/", "", sdk.ReasonNotExecutable},
		"device":                    {"/dev/null", "", sdk.ReasonNotExecutable},
		"fifo":                      {"/fifo", "", sdk.ReasonNotExecutable},
		"socket":                    {"/socket", "", sdk.ReasonNotExecutable},
		"empty":                     {"/empty", "", sdk.ReasonNotExecutable},
		"no shebang":                {"/text", "", sdk.ReasonNotExecutable},
		"no interpreter":            {"/no-interpreter", "", sdk.ReasonNotExecutable},
		"interpreter no program":    {"/bad-interpreter", "", sdk.ReasonNotExecutable},
		"interpreter a directory":   {"/dir-interpreter", "", sdk.ReasonNotExecutable},
		"interpreter is the script": {"/self-interpreter", "", sdk.ReasonNotExecutable},
		"no loader":                 {"/dynamic", "", sdk.ReasonNotExecutable},
		"other architecture":        {"/arm64", "", sdk.ReasonNotExecutable},
		"damaged":                   {"/damaged", "", sdk.ReasonNotExecutable},
		"on a mount without":        {"/dev/shm/true", "", sdk.ReasonNotExecutable},
	} {
		for _, tty := range []*sdk.TTY{nil, {}} {
			t.Run(fmt.Sprint(name, tty != nil), func(t *testing.T) {
				b.refused(t, sdk.ProcessSpec{Path: c.path, User: c.user, TTY: tty, Dir: "/", Stdin: true}, sdk.Invalid, c.reason)
			})
		}
	}
	t.Run("busy", func(t *testing.T) {
		writer := b.open(sdk.ProcessSpec{Path: "sh", Args: []string{"-c", "exec 3>>/busy; echo open; read x"}, Stdin: true})
		writer.expect("open\n")
		b.refused(t, sdk.ProcessSpec{Path: "/busy", Args: []string{"true"}}, sdk.Invalid, sdk.ReasonNotExecutable)
		writer.stdin.Close()
		writer.end()
		if _, err := b.tryStart(sdk.ProcessSpec{Path: "/busy"}); err != nil {
			t.Errorf("once it is closed: %v", err)
		}
	})
	for _, code := range []int{126, 127} {
		if r := b.run(sh(fmt.Sprint("exit ", code))); r.exit.Code != code || r.exit.Reason != sdk.ExitExited {
			t.Errorf("a command's own %d: %+v", code, r.exit)
		}
	}
	if r := b.run(sh("nowhere")); r.exit.Code != 127 || !strings.Contains(r.stderr, "not found") {
		t.Errorf("a shell's own: %+v %q", r.exit, r.stderr)
	}
}

// TestBadSpecs has what the contract itself forbids.
func TestBadSpecs(t *testing.T) {
	b := newBox(t, setting{})
	for name, c := range map[string]struct {
		spec   sdk.ProcessSpec
		reason sdk.Reason
	}{
		"no path":               {sdk.ProcessSpec{}, sdk.ReasonSpec},
		"no value":              {sdk.ProcessSpec{Path: "true", Env: []string{"A"}}, sdk.ReasonSpec},
		"no name":               {sdk.ProcessSpec{Path: "true", Env: []string{"=b"}}, sdk.ReasonSpec},
		"nul in a variable":     {sdk.ProcessSpec{Path: "true", Env: []string{"A=\x00"}}, sdk.ReasonSpec},
		"nul in an argument":    {sdk.ProcessSpec{Path: "true", Args: []string{"\x00"}}, sdk.ReasonSpec},
		"relative directory":    {sdk.ProcessSpec{Path: "true", Dir: "tmp"}, sdk.ReasonPath},
		"directory not clean":   {sdk.ProcessSpec{Path: "true", Dir: "/tmp/../etc"}, sdk.ReasonPath},
		"negative spill":        {sdk.ProcessSpec{Path: "true", Spill: -1}, sdk.ReasonSpec},
		"user of other letters": {sdk.ProcessSpec{Path: "true", User: "a\x00"}, sdk.ReasonSpec},
	} {
		t.Run(name, func(t *testing.T) { b.refused(t, c.spec, sdk.Invalid, c.reason) })
	}
	for _, id := range []sdk.ProcessID{"..", "a/b", "A", "-"} {
		spec := sh("true")
		spec.ID = id
		if _, err := b.tryStart(spec); !errors.Is(err, sdk.Invalid) {
			t.Errorf("id %q: %v", id, err)
		}
	}
	id := b.start(sh("true"))
	if err := b.SignalProcess(t.Context(), b.id, id, "WINCH"); !errors.Is(err, sdk.ReasonSignal) {
		t.Errorf("a signal that is none of the contract's: %v", err)
	}
}

// TestProcesses has a container take all that it takes.
func TestProcesses(t *testing.T) {
	testkit.Soak(t, "thousands of processes")
	if testkit.Race {
		t.Skip("soak: without the race detector, which makes it last for hours")
	}
	b := newBox(t, setting{})
	work := make(chan struct{})
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range work {
				id, err := b.tryStart(sdk.ProcessSpec{Path: "true"})
				var r result
				if err == nil {
					err = b.FollowProcess(t.Context(), b.id, id, 0, r.follow())
				}
				if err != nil || r.exit.Code != 0 || r.exit.Reason != sdk.ExitExited {
					t.Errorf("%v %+v", err, r.exit)
				}
			}
		})
	}
	const kept = 1
	first := b.start(sh("exit 9"))
	for range sdk.MaxProcesses - kept {
		work <- struct{}{}
	}
	close(work)
	workers.Wait()
	for range 2 {
		id, err := b.tryStart(sh("true"))
		if !errors.Is(err, sdk.FailedPrecondition) || !errors.Is(err, sdk.ReasonProcesses) {
			t.Fatalf("one more: %v", err)
		}
		b.noRecord(t, id)
	}
	all, err := b.ListProcesses(t.Context(), b.id)
	if err != nil || len(all) != sdk.MaxProcesses {
		t.Errorf("%d are listed (%v)", len(all), err)
	}
	if r := b.follow(first); r.exit.Code != 9 {
		t.Errorf("the first: %+v", r.exit)
	}
}

// TestFullScratch has the scratch volume fill up. Nothing is started then, and what runs goes on to its exit.
func TestFullScratch(t *testing.T) {
	small := t.TempDir()
	b := newBox(t, setting{spec: func(s *engine.Spec) {
		if err := unix.Mount("small", small, "tmpfs", 0, "size=512k,mode=700"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(small, 0); err != nil {
				t.Error(err)
			}
		})
		s.Mounts[1].Source = small
	}})
	b.scratch = small
	running := b.open(sdk.ProcessSpec{Path: "sh", Args: []string{"-c", "echo up; read x; exit 3"}, Stdin: true})
	running.expect("up\n")
	if r := b.run(sh("cat /dev/zero >/slipway/scratch/fill")); r.exit.Code == 0 {
		t.Fatal("it is not full")
	}
	id, err := b.tryStart(sh("true"))
	if !errors.Is(err, sdk.FailedPrecondition) || !errors.Is(err, sdk.ReasonStorage) {
		t.Errorf("a start: %v", err)
	}
	b.noRecord(t, id)
	running.send("\n")
	if r := running.end(); r.exit.Code != 3 {
		t.Errorf("what ran: %+v", r.exit)
	}
	b.check(os.Remove(filepath.Join(small, "fill")))
	b.says(sh("echo again"), "again\n")
}

// TestReadOnlyScratch has no keeper come to be.
func TestReadOnlyScratch(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, initMode := range map[string]bool{"process 1": false, "first exec": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := setting{initMode: initMode, spec: func(s *engine.Spec) { s.Mounts[1].ReadOnly = true }}
			if !initMode {
				m.spec = func(s *engine.Spec) {
					s.Mounts[1].ReadOnly, s.Args = true, []string{"/bin/sh", "-c", "/slipway/shim serve /slipway/scratch; sleep 1000"}
				}
			}
			b := newContainer(t, m)
			_, err := b.Start(t.Context(), b.id)
			if !errors.Is(err, sdk.FailedPrecondition) || !errors.Is(err, sdk.ReasonCreating) || !strings.Contains(err.Error(), "read-only") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestOtherVersion has a shim in the container that speaks another version of the protocol.
func TestOtherVersion(t *testing.T) {
	for _, line := range []string{"slipway-shim 2 {}", `slipway-shim 0 {"State":"ready"}`, "slipway-shim 99999 of words to come"} {
		b := newContainer(t, setting{initMode: true, spec: func(s *engine.Spec) {
			other := filepath.Join(filepath.Dir(s.Rootfs), "other")
			if err := os.WriteFile(other, []byte("#!/bin/sh\necho '"+line+"'; cat >/dev/null\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			s.Mounts[0].Source, s.Args = other, []string{"/bin/sleep", "1000"}
		}})
		_, err := b.Start(t.Context(), b.id)
		if !errors.Is(err, sdk.FailedPrecondition) || !errors.Is(err, sdk.ReasonVersion) {
			t.Errorf("%q: %v", line, err)
		}
		if _, err = b.tryStart(sh("true")); !errors.Is(err, sdk.ReasonVersion) {
			t.Errorf("%q: starting: %v", line, err)
		}
	}
}
