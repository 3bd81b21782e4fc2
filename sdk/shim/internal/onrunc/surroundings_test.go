//go:build linux

package onrunc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
)

// busyboxOnly binds the one program that the tests need into a root without any.
func busyboxOnly(s *engine.Spec) {
	s.Mounts = append(s.Mounts, engine.Mount{Source: "/bin/busybox", Path: "/bin/busybox", ReadOnly: true})
}

// TestSurroundings runs the same in containers of every kind: what a process is and says, its terminal, a signal, its tree's end.
func TestSurroundings(t *testing.T) {
	const root, alice = "0 0", "1000 1001"
	all := []sdk.Feature{sdk.FeatureUsers, sdk.FeatureTTY, sdk.FeatureTTYResize, sdk.FeatureExitOOM}
	noUsers := all[1:]
	deep := "/slipway/" + strings.Repeat("d", 95) + "/" + strings.Repeat("e", 95)
	for name, c := range map[string]struct {
		m        setting
		self     string // its keeper's ids
		features []sdk.Feature
		note     string
	}{
		"plain":           {setting{}, root, all, ""},
		"first exec":      {setting{initMode: true}, root, all, ""},
		"read-only root":  {setting{spec: func(s *engine.Spec) { s.ReadonlyRootfs = true }}, root, all, ""},
		"empty root":      {setting{empty: true, spec: busyboxOnly}, root, all, ""},
		"empty, exec":     {setting{empty: true, initMode: true, spec: busyboxOnly}, root, all, ""},
		"empty read-only": {setting{empty: true, spec: func(s *engine.Spec) { busyboxOnly(s); s.ReadonlyRootfs = true }}, root, all, ""},
		"not root":        {notRoot(), alice, noUsers, "processes run as user 1000"},
		"user namespace":  {inUserNamespace(engine.User{}), root, all, ""},
		"both":            {inUserNamespace(engine.User{UID: 1000, GID: 1001}), alice, noUsers, "processes run as user 1000"},
		"privileged":      {setting{spec: func(s *engine.Spec) { s.Privileged = true }}, root, all, ""},
		"host network":    {setting{spec: func(s *engine.Spec) { s.HostNetwork = true }}, root, all, ""},
		"long scratch": {func() setting {
			m := setting{initMode: true, spec: func(s *engine.Spec) { s.Mounts[1].Path = deep }}
			m.options.Scratch = deep
			return m
		}(), root, all, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, c.m)
			info, err := b.Ready(t.Context(), b.id)
			b.check(err)
			got := slices.Sorted(slices.Values(info.Features))
			for _, f := range all {
				if slices.Contains(got, f) != slices.Contains(c.features, f) {
					t.Errorf("features %q, want %q (%q)", got, c.features, info.Notes)
				}
			}
			if c.note == "" && len(info.Notes) > 0 {
				t.Errorf("notes %q", info.Notes)
			} else if c.note != "" {
				noted(t, info.Notes, c.note)
			}
			bb := func(args ...string) sdk.ProcessSpec { return sdk.ProcessSpec{Path: "/bin/busybox", Args: args} }
			b.says(bb("sh", "-c", "echo $(busybox id -u) $(busybox id -g)"), c.self+"\n")
			as := bb("sh", "-c", "echo $(busybox id -u) $(busybox id -g)")
			as.User = "77:78"
			if slices.Contains(c.features, sdk.FeatureUsers) {
				b.says(as, "77 78\n")
			} else {
				id, err := b.tryStart(as)
				if e, ok := errors.AsType[*sdk.Error](err); !ok || e.Class != sdk.Unsupported || e.Feature != sdk.FeatureUsers {
					t.Errorf("as another user: %v", err)
				}
				b.noRecord(t, id)
			}
			b.refused(t, sdk.ProcessSpec{Path: "/nowhere"}, sdk.Invalid, sdk.ReasonExecutableNotFound)
			terminal := bb("sh", "-c", "busybox stty size; busybox stty -echo; busybox cat; exit 3")
			terminal.TTY, terminal.Stdin = &sdk.TTY{Columns: 99, Rows: 33}, true
			p := b.open(terminal)
			p.expect("33 99\r\n")
			p.send("typed\n")
			p.expect("typed\r\n")
			p.stdin.Close()
			if r := p.end(); r.exit.Code != 3 {
				t.Errorf("%+v", r.exit)
			}
			in := bb("sh", "-c", "busybox wc -c; echo err >&2; exit 4")
			in.Stdin = true
			p = b.open(in)
			p.send(strings.Repeat("x", 300_000))
			p.stdin.Close()
			if r := p.end(); r.stdout != "300000\n" || r.stderr != "err\n" || r.exit.Code != 4 {
				t.Errorf("%q %q %+v", r.stdout, r.stderr, r.exit)
			}
			p = b.open(bb("sh", "-c", "trap 'echo term' TERM; busybox setsid busybox sh -c 'echo up; busybox sleep 98765; :' & wait; wait"))
			p.expect("up\n")
			p.signal(sdk.TERM)
			p.expect("term\n")
			p.signal(sdk.KILL)
			if r := p.end(); r.exit.Signal != sdk.KILL || r.exit.OutputCut {
				t.Errorf("%+v", r.exit)
			}
			b.awaitQuiet()
		})
	}
}

// TestMemoryLimit has commands killed for want of memory; their keeper is not.
func TestMemoryLimit(t *testing.T) {
	b := newBox(t, setting{spec: func(s *engine.Spec) { s.MemoryBytes = 96 << 20 }})
	eat := sdk.ProcessSpec{Path: "dd", Args: []string{"if=/dev/zero", "of=/dev/null", "bs=400M", "count=1"}}
	bystander := b.open(sdk.ProcessSpec{Path: "cat", Stdin: true})
	killed := b.open(sh("echo up; exec sleep 1000"))
	killed.expect("up\n")
	for range 5 {
		if r := b.run(eat); r.exit.Reason != sdk.ExitOOM || r.exit.Signal != sdk.KILL || r.exit.Code != 137 || r.exit.Message == "" {
			t.Errorf("%+v %q", r.exit, r.stderr)
		}
		b.says(sh("echo next"), "next\n")
	}
	if r := b.run(sh("dd if=/dev/zero of=/dev/null bs=400M count=1; exit 3")); r.exit.Code != 3 || r.exit.Reason != sdk.ExitExited {
		t.Errorf("whose child was killed: %+v", r.exit)
	}
	killed.signal(sdk.KILL)
	if r := killed.end(); r.exit.Reason != sdk.ExitSignalled || r.exit.Message != "" {
		t.Errorf("who was killed on demand: %+v", r.exit)
	}
	bystander.send("alive")
	bystander.expect("alive")
	bystander.stdin.Close()
	if r := bystander.end(); r.exit.Code != 0 {
		t.Errorf("the bystander: %+v", r.exit)
	}
}

// TestPIDLimit starts processes until there are too many, and again when there is room.
func TestPIDLimit(t *testing.T) {
	for limit := int64(50); limit < 60; limit += 3 { // each has another step of a start meet the limit
		t.Run(fmt.Sprint(limit), func(t *testing.T) { testPIDLimit(t, limit) })
	}
}

func testPIDLimit(t *testing.T, limit int64) {
	b := newBox(t, setting{spec: func(s *engine.Spec) { s.PIDs = limit }})
	for range 2 {
		var running []sdk.ProcessID
		var refusals int
		var last error
		for range 60 {
			id, err := b.tryStart(sdk.ProcessSpec{Path: "sleep", Args: []string{"1000"}})
			if err == nil {
				running = append(running, id)
				continue
			}
			if !errors.Is(err, sdk.Unavailable) {
				t.Errorf("number %d: %v", len(running), err)
			}
			b.noRecord(t, id)
			last = err
			if refusals++; refusals == 2 { // Go tries for long to make a thread, before it gives up
				break
			}
		}
		if refusals == 0 || len(running) == 0 {
			t.Errorf("%d started, %d not", len(running), refusals)
		}
		t.Logf("%d processes, then %v", len(running), last)
		for _, id := range running {
			b.check(b.SignalProcess(t.Context(), b.id, id, sdk.KILL))
			var r result
			if err := b.FollowProcess(t.Context(), b.id, id, 0, r.follow()); err != nil || r.exit.Signal != sdk.KILL {
				t.Errorf("%v %+v", err, r.exit)
			}
		}
		testkit.Until(t, "there is room again", func() bool { // the last monitors may be ending
			_, err := b.tryStart(sh("true"))
			if err != nil && !errors.Is(err, sdk.Unavailable) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	b.awaitQuiet()
}

// TestNoDevices has root in the container take away what its keeper may have taken for granted.
func TestNoDevices(t *testing.T) {
	b := newBox(t, setting{})
	b.says(sh("rm -rf /dev/null /dev/zero /dev/fd /dev/stdin /dev/stdout /dev/stderr /tmp /etc; [ -e /dev/null ] || echo gone"), "gone\n")
	spec := sh("wc -c; echo out; echo err >&2")
	spec.User = "1000"
	if r := b.run(spec); r.stdout != "0\nout\n" || r.stderr != "err\n" {
		t.Errorf("%q %q %+v", r.stdout, r.stderr, r.exit)
	}
	if _, err := os.Stat(b.root + "/etc"); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}
