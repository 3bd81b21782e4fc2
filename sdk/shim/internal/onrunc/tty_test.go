//go:build linux

package onrunc

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

func TestTTY(t *testing.T) {
	b := newBox(t, setting{})
	for name, c := range map[string]struct {
		tty    *sdk.TTY
		user   string
		script string
		want   string
	}{
		"none":                {nil, "", "[ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo none", "none\n"},
		"all three":           {&sdk.TTY{}, "", "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; echo err >&2", "all\r\nerr\r\n"},
		"default size":        {&sdk.TTY{}, "", "stty size", "24 80\r\n"},
		"size":                {&sdk.TTY{Columns: 132, Rows: 43}, "", "stty size", "43 132\r\n"},
		"large size":          {&sdk.TTY{Columns: 29000, Rows: 29000}, "", "stty size", "29000 29000\r\n"},
		"columns only":        {&sdk.TTY{Columns: 500}, "", "stty size", "24 500\r\n"},
		"line ends":           {&sdk.TTY{}, "", `printf 'a\nb\r\n\n'`, "a\r\nb\r\r\n\r\n"},
		"raw":                 {&sdk.TTY{}, "", `stty -opost; printf 'a\nb\r\n'`, "a\nb\r\n"},
		"controlling":         {&sdk.TTY{}, "", "exec 3<>/dev/tty && echo opened >&3", "opened\r\n"},
		"the user's":          {&sdk.TTY{}, "alice", "stat -L -c %u /dev/fd/0; T=$(tty) && echo by name >$T && echo tty >/dev/tty", "1000\r\nby name\r\ntty\r\n"},
		"root's":              {&sdk.TTY{}, "", "stat -L -c %u /dev/fd/0", "0\r\n"},
		"foreground":          {&sdk.TTY{}, "", "set -- $(cat /proc/$$/stat); [ $8 = $$ ] && [ $6 = $$ ] && [ $7 != 0 ] && echo leads", "leads\r\n"},
		"stdin at its end":    {&sdk.TTY{}, "", "cat; cat; for i in 1 2 3; do read x; wc -c; done; echo over", "0\r\n0\r\n0\r\nover\r\n"},
		"binary":              {&sdk.TTY{}, "", `stty -opost; printf '\377\000\033[1m\n'`, "\xff\x00\x1b[1m\n"},
		"no hangup by itself": {&sdk.TTY{}, "", "trap 'echo hup' HUP; true; echo end", "end\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := sh(c.script)
			spec.TTY, spec.User = c.tty, c.user
			b.prints(t, spec, c.want)
		})
	}
}

func tty(script string) sdk.ProcessSpec {
	spec := sh(script)
	spec.TTY, spec.Stdin = &sdk.TTY{}, true
	return spec
}

func TestTTYInput(t *testing.T) {
	b := newBox(t, setting{})
	t.Run("interrupt", func(t *testing.T) {
		p := b.open(tty("echo up; exec sleep 1000"))
		p.expect("up\r\n")
		p.send("\x03")
		if r := p.end(); r.exit.Signal != sdk.INT || r.exit.Code != 130 {
			t.Errorf("%+v %q", r.exit, r.stdout)
		}
	})
	t.Run("quit", func(t *testing.T) {
		// Between its last words and its exec the shell ignores QUIT, so it is the program that has to say that it is up.
		p := b.open(tty(`exec awk 'BEGIN { print "up"; fflush(); getline }'`))
		p.expect("up\r\n")
		p.send("\x1c")
		if r := p.end(); r.exit.Signal != sdk.QUIT {
			t.Errorf("%+v %q", r.exit, r.stdout)
		}
	})
	t.Run("interrupt caught", func(t *testing.T) {
		p := b.open(tty("trap 'echo caught; exit 5' INT; echo up; while :; do sleep 0.05; done"))
		p.expect("up\r\n")
		p.send("\x03")
		if r := p.end(); r.exit.Code != 5 || !strings.Contains(r.stdout, "caught") {
			t.Errorf("%+v %q", r.exit, r.stdout)
		}
	})
	t.Run("end typed", func(t *testing.T) {
		p := b.open(tty("stty -echo; echo up; cat; echo over; cat; echo out"))
		p.expect("up\r\n")
		p.send("line\nrest\x04\x04")
		p.expect("line\r\nrest")
		p.expect("over\r\n")
		p.send("more\n\x04")
		p.expect("more\r\nout\r\n")
		p.end()
	})
	for name, c := range map[string]struct{ sent, want string }{
		"at once":        {"", "0\r\n"},
		"at line start":  {"line\n", "5\r\n"},
		"in mid-line":    {"line\nrest", "9\r\n"},
		"after an end":   {"line\n\x04", "5\r\n"},
		"after odd ones": {"\xc3\xbc\n", "3\r\n"},
	} {
		t.Run("closed "+name, func(t *testing.T) {
			p := b.open(tty("stty -echo; echo up; wc -c; exit 4"))
			p.expect("up\r\n")
			if c.sent != "" {
				p.send(c.sent)
			}
			p.stdin.Close()
			if r := p.end(); r.exit.Code != 4 || !strings.HasSuffix(r.stdout, "up\r\n"+c.want) {
				t.Errorf("%+v %q", r.exit, r.stdout)
			}
		})
	}
	t.Run("closed for all who read", func(t *testing.T) {
		p := b.open(tty("stty -echo; echo up; cat; cat; read x; wc -c; exit 4"))
		p.expect("up\r\n")
		p.send("rest")
		p.stdin.Close()
		if r := p.end(); r.exit.Code != 4 || !strings.HasSuffix(r.stdout, "rest0\r\n") {
			t.Errorf("%+v %q", r.exit, r.stdout)
		}
	})
	t.Run("other end character", func(t *testing.T) {
		p := b.open(tty("stty -echo eof ^A; echo up; wc -c"))
		p.expect("up\r\n")
		p.send("a\x04b\n")
		p.stdin.Close()
		p.expect("4\r\n")
		p.end()
	})
	t.Run("raw bytes", func(t *testing.T) {
		p := b.open(tty("stty raw -echo; echo up; head -c 256 | od -An -v -tx1 | tr -d ' \\n'"))
		p.expect("up\n")
		var all, want strings.Builder
		for i := range 256 {
			all.WriteByte(byte(i))
			fmt.Fprintf(&want, "%02x", i)
		}
		p.send(all.String())
		p.expect(want.String())
		p.end()
	})
	t.Run("much of it", func(t *testing.T) {
		p := b.open(tty("stty -echo; echo up; wc -c"))
		p.expect("up\r\n")
		line := strings.Repeat("x", 99) + "\n"
		for range 100 {
			p.send(strings.Repeat(line, 100))
		}
		p.stdin.Close()
		p.expect("1000000\r\n")
		p.end()
	})
}

// TestTTYResize: what it runs sleeps, since busybox's read may miss a signal that comes just before it waits.
func TestTTYResize(t *testing.T) {
	b := newBox(t, setting{})
	p := b.open(tty("trap 'stty size' WINCH; echo up; while :; do sleep 0.05; done"))
	p.expect("up\r\n")
	for _, size := range []sdk.TTY{{Columns: 100, Rows: 30}, {Columns: 500, Rows: 5}, {}} {
		b.check(b.ResizeProcess(t.Context(), b.id, p.id, size))
		want := fmt.Sprintf("%d %d\r\n", size.Rows, size.Columns)
		if size == (sdk.TTY{}) {
			want = "24 80\r\n"
		}
		p.expect(want)
	}
	p.signal(sdk.KILL)
	p.end()
	if err := b.ResizeProcess(t.Context(), b.id, p.id, sdk.TTY{}); err != nil {
		t.Errorf("after the end: %v", err)
	}
	plain := b.open(sdk.ProcessSpec{Path: "cat", Stdin: true})
	if err := b.ResizeProcess(t.Context(), b.id, plain.id, sdk.TTY{}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("without a terminal: %v", err)
	}
	plain.stdin.Close()
	plain.end()
	if err := b.ResizeProcess(t.Context(), b.id, "nobody", sdk.TTY{}); !sdk.IsNotFound(err, sdk.KindProcess) {
		t.Errorf("of nothing: %v", err)
	}
}

// TestTTYComplete has output that comes last before the end of a terminal.
func TestTTYComplete(t *testing.T) {
	b := newBox(t, setting{})
	var want strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&want, "%d\r\n", i+1)
	}
	for range testkit.Times(20, 100) {
		spec := sdk.ProcessSpec{Path: "seq", Args: []string{"1", "10000"}, TTY: &sdk.TTY{}}
		if r := b.run(spec); r.stdout != want.String() || r.exit.Code != 0 || r.exit.OutputCut {
			t.Fatalf("%d of %d bytes, %+v", len(r.stdout), want.Len(), r.exit)
		}
	}
}

// TestTTYLeaderExits has children that stay on the terminal when its leader goes.
func TestTTYLeaderExits(t *testing.T) {
	b := newBox(t, setting{})
	t.Run("hang-up", func(t *testing.T) {
		spec := tty("sh -c 'trap \"echo hup >/tmp/hup; exit\" HUP; echo up; while :; do sleep 1000 & wait $!; done' & until [ -e /tmp/go ]; do sleep 0.1; done; exit 6")
		p := b.open(spec)
		p.expect("up\r\n")
		b.write("tmp/go", "", 0o644)
		if r := p.end(); r.exit.Code != 6 {
			t.Errorf("%+v %q", r.exit, r.stdout)
		}
		b.says(sh("until [ -s /tmp/hup ]; do sleep 0.1; done; cat /tmp/hup"), "hup\n")
		b.check(b.SignalProcess(t.Context(), b.id, p.id, sdk.KILL))
	})
	t.Run("nobody hears it", func(t *testing.T) {
		r := b.run(tty("trap '' HUP; sleep 3 & (while :; do echo still; sleep 0.1; done) & exit 7"))
		if r.exit.Code != 7 {
			t.Errorf("%+v %q", r.exit, r.stdout)
		}
	})
}

// TestNoTerminals has a container without them.
func TestNoTerminals(t *testing.T) {
	b := newContainer(t, after("umount /dev/console; umount /dev/pts && rm -f /dev/ptmx"))
	info, err := b.Ready(t.Context(), b.id)
	b.check(err)
	noted(t, info.Notes, "no terminals", "ptmx")
	for _, f := range info.Features {
		if f == sdk.FeatureTTY || f == sdk.FeatureTTYResize {
			t.Errorf("%s is said to be there", f)
		}
	}
	spec := sh("true")
	spec.TTY = &sdk.TTY{}
	id, err := b.tryStart(spec)
	if !errors.Is(err, sdk.Unsupported) {
		t.Errorf("%v", err)
	}
	b.noRecord(t, id)
	b.says(sh("echo yet"), "yet\n")
}

// TestTerminalThatItsLeaderLetsGo: closing one's own files is no reason to be hung up on.
func TestTerminalThatItsLeaderLetsGo(t *testing.T) {
	b := newBox(t, setting{})
	if r := b.run(tty("echo out; exec <&- >/tmp/x 2>&1; sleep 0.2; exit 3")); r.exit.Code != 3 || r.exit.OutputCut || r.stdout != "out\r\n" {
		t.Errorf("%+v", r)
	}
	if r := b.run(tty("echo out; exec <&- >/tmp/x 2>&1; sleep 0.2; seq 1 5000 >/dev/tty; sleep 0.2; exit 4")); r.exit.Code != 4 || !strings.HasSuffix(r.stdout, "\r\n5000\r\n") {
		t.Errorf("%+v, %d bytes", r.exit, len(r.stdout))
	}
}
