//go:build linux

package onrunc

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
)

// build makes a static program of a package.
func build(t testing.TB, to, pkg string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", to, pkg)
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
}

// careless is a program that executes the shim after all that a careless runtime may leave to it.
const careless = `#!/bin/sh
trap "" HUP INT QUIT USR1 USR2 PIPE ALRM TERM CHLD TSTP TTIN TTOU URG WINCH
echo 300 >/proc/self/oom_score_adj
ulimit -Sn 300
ulimit -Sc 0
umask 0
cd /tmp
exec 7</etc/passwd 9>/tmp/leaked
export SECRET=s3cret HOME=/keeper PATH=/keeper/bin USER=keeper
exec /bin/blocked /slipway/shim "$@"
`

// TestSurroundingsOfACommand has a command see what it inherits, under a keeper that inherited the worst.
func TestSurroundingsOfACommand(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "blocked")
	build(t, blocked, "./testdata/blocked")
	for name, initMode := range map[string]bool{"process 1": false, "first exec": true} {
		t.Run(name, func(t *testing.T) {
			m := setting{initMode: initMode, spec: func(s *engine.Spec) {
				s.Mounts = append(s.Mounts, engine.Mount{Source: blocked, Path: "/bin/blocked", ReadOnly: true})
				if err := os.WriteFile(filepath.Join(s.Rootfs, "careless"), []byte(careless), 0o755); err != nil {
					t.Fatal(err)
				}
				if !initMode {
					s.Args[0] = "/careless"
				}
				s.Env = []string{"CONTAINER_SECRET=hidden", "PATH=/bin", "LISTEN_FDS=2"}
			}}
			if initMode {
				m.options.Program = "/careless"
			}
			b := newBox(t, m)
			const keeper = "K=$(awk '/^PPid/{print $2}' /proc/$PPID/status); "
			for name, c := range map[string]struct {
				spec sdk.ProcessSpec
				want string
			}{
				"signals":         {sh("exec grep -hE '^(SigBlk|SigIgn|SigCgt|ShdPnd|SigPnd):' /proc/self/status"), "SigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n"},
				"umask":           {sdk.ProcessSpec{Path: "sh", Args: []string{"-c", "umask"}}, "0022\n"},
				"open files":      {sh("for f in /proc/$$/fd/*; do [ ! -e $f ] || echo ${f##*/}; done"), "0\n1\n2\n"},
				"limits":          {sh("ulimit -Sn; ulimit -Sc"), "300\n0\n"},
				"environment":     {sdk.ProcessSpec{Path: "cat", Args: []string{"/proc/self/environ"}}, "PATH=" + rootPath + "\x00HOME=/root\x00"},
				"session":         {sh("set -- $(cat /proc/$$/stat); [ $1 = $5 ] && [ $1 = $6 ] && echo $7"), "0\n"},
				"directory":       {sh("/bin/pwd"), "/\n"},
				"out of memory":   {sh("cat /proc/self/oom_score_adj; until [ $(cat /proc/$PPID/oom_score_adj) = 300 ]; do :; done"), "800\n"},
				"keeper's memory": {sh(keeper + "cat /proc/$K/oom_score_adj"), "300\n"},
				"stdin":           {sdk.ProcessSpec{Path: "cat"}, ""},
				"default signals": {sh("kill -PIPE $$; echo ignored"), ""},
			} {
				t.Run(name, func(t *testing.T) {
					r := b.run(c.spec)
					code := 0
					if name == "default signals" {
						code = 128 + 13
					}
					if r.stdout != c.want || r.stderr != "" || r.exit.Code != code {
						t.Errorf("got %q and %q on stderr, exit %+v; want %q", r.stdout, r.stderr, r.exit, c.want)
					}
				})
			}
			spec := sdk.ProcessSpec{Path: "sh", Args: []string{"-c", "for f in /proc/$$/fd/*; do [ ! -e $f ] || echo ${f##*/}; done"}, TTY: &sdk.TTY{}, User: "alice"}
			b.says(spec, "0\r\n1\r\n2\r\n")
		})
	}
}

func TestArgumentsAndEnvironment(t *testing.T) {
	b := newBox(t, setting{})
	odd := []string{"", " ", "$X", "*", "\n", "\"'\\`", "a=b", "-c", "--", "ü", "\xff\xfe", "\x01\x7f", "€\xe2\x82", strings.Repeat("x", 100<<10)}
	t.Run("arguments", func(t *testing.T) {
		args := append([]string{"-c", "cat /proc/$$/cmdline; :", "zero"}, odd...)
		b.prints(t, sdk.ProcessSpec{Path: "sh", Args: args}, "sh\x00"+strings.Join(args, "\x00")+"\x00")
	})
	t.Run("own name", func(t *testing.T) {
		for _, path := range []string{"cat", "/bin/cat", "bin/../bin/cat", "./bin/cat"} {
			b.prints(t, sdk.ProcessSpec{Path: path, Args: []string{"/proc/self/cmdline"}}, path+"\x00/proc/self/cmdline\x00")
		}
	})
	for name, c := range map[string]struct {
		env  []string
		user string
		more string
	}{
		"none":      {nil, "", "PATH=" + rootPath + "\x00HOME=/root\x00"},
		"a user's":  {nil, "alice", "PATH=" + userPath + "\x00HOME=/home/alice\x00USER=alice\x00"},
		"all asked": {[]string{"USER=u", "HOME=/h", "PATH=/bin"}, "alice", ""},
		"set empty": {[]string{"HOME=", "USER=", "PATH=/bin"}, "alice", ""},
		"alike":     {[]string{"PATHS=1", "HOMES=1", "MYHOME=1", "USERS=2"}, "alice", "PATH=" + userPath + "\x00HOME=/home/alice\x00USER=alice\x00"},
		"odd":       {[]string{"A=", "B= b ", "C==", "D=x=y", "E=\n", "F=\xff", "ü=1", "\xff=2", "a b=3", "G=" + strings.Repeat("y", 100<<10)}, "", "PATH=" + rootPath + "\x00HOME=/root\x00"},
	} {
		t.Run("environment "+name, func(t *testing.T) {
			want := c.more
			if len(c.env) > 0 {
				want = strings.Join(c.env, "\x00") + "\x00" + want
			}
			b.prints(t, sdk.ProcessSpec{Path: "cat", Args: []string{"/proc/self/environ"}, Env: c.env, User: c.user}, want)
		})
	}
	t.Run("environment duplicates", func(t *testing.T) { // the last of each name counts, and is alone
		env := []string{"A=1", "PATH=/nowhere", "A=2", "B=x", "PATH=/bin"}
		b.prints(t, sdk.ProcessSpec{Path: "cat", Args: []string{"/proc/self/environ"}, Env: env}, "A=2\x00B=x\x00PATH=/bin\x00HOME=/root\x00")
	})
	t.Run("longest argument", func(t *testing.T) {
		const most = 128<<10 - 1 // of the kernel
		b.prints(t, sdk.ProcessSpec{Path: "sh", Args: []string{"-c", "echo ${#1}", "sh", strings.Repeat("x", most)}}, "131071\n")
	})
	t.Run("many arguments", func(t *testing.T) {
		args := []string{"-c", "echo $#", "sh"}
		for range 100_000 {
			args = append(args, "x")
		}
		b.prints(t, sdk.ProcessSpec{Path: "sh", Args: args}, "100000\n")
	})
	repeat := func(n int, s string) []string { return strings.Split(strings.Repeat(s+"\x00", n-1)+s, "\x00") }
	for name, spec := range map[string]sdk.ProcessSpec{
		"too long an argument":   {Path: "true", Args: []string{strings.Repeat("x", 128<<10)}},
		"too long a variable":    {Path: "true", Env: []string{"A=" + strings.Repeat("x", 128<<10-2)}},
		"too many arguments":     {Path: "true", Args: repeat(250_000, "x")},
		"far too many arguments": {Path: "true", Args: repeat(1_000_000, "x")},
		"empty arguments":        {Path: "true", Args: repeat(1_900_000, "")},
		"too much for contract":  {Path: "true", Args: repeat(30, strings.Repeat("x", 100<<10))},
		"too much with variable": {Path: "true", Args: repeat(10, strings.Repeat("x", 100<<10)), Env: repeat(11, "A="+strings.Repeat("x", 100<<10))},
	} {
		t.Run(name, func(t *testing.T) { b.refused(t, spec, sdk.Invalid, sdk.ReasonTooLarge) })
	}
}

func TestPathLookup(t *testing.T) {
	b := newBox(t, setting{})
	script := func(says string) string { return "#!/bin/sh\necho " + says + "\n" }
	b.write("plain/tool", script("plain"), 0o644)
	b.write("two/tool", script("two"), 0o755)
	b.write("three/tool", script("three"), 0o755)
	b.write("dir/tool/file", "", 0o644)
	b.write("work/tool", script("work"), 0o755)
	b.write("work/sub/tool", script("sub"), 0o755)
	b.write("closed/tool", script("closed"), 0o755)
	b.check(os.Chmod(filepath.Join(b.root, "closed"), 0o700))
	b.write("broken/tool", "#!/nowhere\n", 0o755)
	b.write("text/tool", "no program", 0o755)
	b.write("usr/local/bin/tool", script("default"), 0o755)
	b.write("usr/sbin/rootly", script("rootly"), 0o755)
	b.write("a:b/tool", script("colon"), 0o755)
	b.check(os.MkdirAll(filepath.Join(b.root, "loop"), 0o755))
	b.check(os.Symlink("tool", filepath.Join(b.root, "loop/tool")))

	for name, c := range map[string]struct{ path, tool, user, want string }{
		"not executable, then executable": {"PATH=/plain:/two:/three", "tool", "", "two"},
		"a directory, then executable":    {"PATH=/dir:/three:/two", "tool", "", "three"},
		"what is missing":                 {"PATH=/nowhere:/etc/passwd:/two", "tool", "", "two"},
		"without interpreter":             {"PATH=/broken:/two", "tool", "", "two"},
		"closed to the user":              {"PATH=/closed:/two", "tool", "alice", "two"},
		"open to root":                    {"PATH=/closed:/two", "tool", "", "closed"},
		"relative":                        {"PATH=sub:/two", "tool", "", "sub"},
		"relative and up":                 {"PATH=../three", "tool", "", "three"},
		"empty first entry":               {"PATH=:/two", "tool", "", "work"},
		"empty last entry":                {"PATH=/nowhere:", "tool", "", "work"},
		"empty middle entry":              {"PATH=/nowhere::/two", "tool", "", "work"},
		"empty":                           {"PATH=", "tool", "", "work"},
		"missing":                         {"", "tool", "", "default"},
		"missing, for root":               {"", "rootly", "", "rootly"},
		"slash":                           {"PATH=/two", "sub/tool", "", "sub"},
		"dot":                             {"PATH=/two", "./tool", "", "work"},
		"absolute":                        {"PATH=/two", "/three/tool", "", "three"},
		"last of two PATHs":               {"PATH=/two\x00PATH=/three", "tool", "", "three"},
		"trailing slash":                  {"PATH=/two/", "tool", "", "two"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := sdk.ProcessSpec{Path: c.tool, Dir: "/work", User: c.user}
			if c.path != "" {
				spec.Env = strings.Split(c.path, "\x00")
			}
			b.prints(t, spec, c.want+"\n")
		})
	}
	for name, c := range map[string]struct {
		path, tool, user string
		reason           sdk.Reason
	}{
		"nowhere":              {"PATH=/nowhere:/etc", "tool", "", sdk.ReasonExecutableNotFound},
		"only plain":           {"PATH=/nowhere:/plain:/etc", "tool", "", sdk.ReasonNotExecutable},
		"only a directory":     {"PATH=/dir", "tool", "", sdk.ReasonNotExecutable},
		"only closed":          {"PATH=/closed", "tool", "alice", sdk.ReasonNotExecutable},
		"only broken":          {"PATH=/broken", "tool", "", sdk.ReasonNotExecutable},
		"text ends the search": {"PATH=/text:/two", "tool", "", sdk.ReasonNotExecutable},
		"for root only":        {"", "rootly", "alice", sdk.ReasonExecutableNotFound},
		"not of the keeper's":  {"PATH=/nowhere", "busybox", "", sdk.ReasonExecutableNotFound},
		"long name":            {"PATH=/bin", strings.Repeat("n", 5000), "", sdk.ReasonExecutableNotFound},
		"not beside Dir":       {"PATH=/bin", "tool", "", sdk.ReasonExecutableNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			spec := sdk.ProcessSpec{Path: c.tool, Dir: "/work", User: c.user}
			if c.path != "" {
				spec.Env = []string{c.path}
			}
			b.refused(t, spec, sdk.Invalid, c.reason)
		})
	}
}

// TestNoSecretIsKept starts a process with a secret and looks for it in all that the keeper has written.
func TestNoSecretIsKept(t *testing.T) {
	b := newBox(t, setting{initMode: true})
	const secret = "s3cr3t-of-the-test"
	p := b.open(sdk.ProcessSpec{Path: "sh", Args: []string{"-c", "echo up; read x"}, Env: []string{"TOKEN=" + secret}, Stdin: true})
	p.expect("up\n")
	err := b.refused(t, sdk.ProcessSpec{Path: "/nowhere", Env: []string{"TOKEN=" + secret}, Args: []string{secret}}, sdk.Invalid, sdk.ReasonExecutableNotFound)
	if strings.Contains(err.Error(), secret) {
		t.Errorf("the error has it: %v", err)
	}
	for _, at := range []string{b.scratch, filepath.Join(b.dir, "state")} {
		if out, _ := exec.CommandContext(context.WithoutCancel(t.Context()), "grep", "-r", "-l", "--devices=skip", secret, at).Output(); len(out) > 0 {
			t.Errorf("it is in %s", out)
		}
	}
	p.stdin.Close()
	p.end()
}
