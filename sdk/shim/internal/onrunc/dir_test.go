//go:build linux

package onrunc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
)

func TestDir(t *testing.T) {
	b := newBox(t, setting{})
	b.check(os.MkdirAll(filepath.Join(b.root, "real/inner"), 0o755))
	b.check(os.Symlink("real", filepath.Join(b.root, "relative")))
	b.check(os.Symlink("/real", filepath.Join(b.root, "absolute")))
	b.check(os.Symlink("../../../../real", filepath.Join(b.root, "above")))
	b.check(os.MkdirAll(filepath.Join(b.root, "secret"), 0o700))
	odd := "/o d/\xff\"'\\/ü"
	component := "/" + strings.Repeat("d", 255)
	long := strings.Repeat(component, 16) + "/e"
	const owner = `; stat -c '%u:%g %a' .`
	for name, c := range map[string]struct{ dir, user, script, want string }{
		"default":                 {"", "", "/bin/pwd", "/\n"},
		"there":                   {"/etc", "alice", "/bin/pwd", "/etc\n"},
		"relative link":           {"/relative/inner", "", "/bin/pwd", "/real/inner\n"},
		"absolute link":           {"/absolute/inner", "", "/bin/pwd", "/real/inner\n"},
		"link above the root":     {"/above", "", "/bin/pwd", "/real\n"},
		"missing behind a link":   {"/absolute/new", "", "/bin/pwd" + owner, "/real/new\n0:0 755\n"},
		"missing, root's":         {"/made/by/root", "", "/bin/pwd" + owner, "/made/by/root\n0:0 755\n"},
		"missing, a user's":       {"/x/y/z", "alice", "/bin/pwd; touch mine && stat -c '%u:%g %a' / /x /x/y . mine", "/x/y/z\n0:0 755\n1000:1001 755\n1000:1001 755\n1000:1001 755\n1000:1001 644\n"},
		"missing, a number's":     {"/w", "77:78", "/bin/pwd" + owner, "/w\n77:78 755\n"},
		"missing in what is ours": {"/tmp/a/b", "bob", "/bin/pwd; stat -c '%u:%g %a' /tmp/a .; stat -c %u /tmp", "/tmp/a/b\n1002:1002 755\n1002:1002 755\n0\n"},
		"of the longest path":     {strings.Repeat(component, 15) + "/" + strings.Repeat("e", 254), "", "stat -c '%u:%g %a' .", "0:0 755\n"},
		"odd bytes":               {odd, "", "/bin/pwd", odd + "\n"},
		"not a user's":            {"/secret", "alice", "/bin/pwd; ls 2>/dev/null || echo closed", "/secret\nclosed\n"},
		"of the longest names":    {component, "", "/bin/pwd" + owner, component + "\n0:0 755\n"},
		"PWD is not made up":      {"/etc", "", "tr '\\0' '\\n' </proc/$$/environ | grep -c ^PWD=; true", "0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := sh(c.script)
			spec.Dir, spec.User = c.dir, c.user
			b.prints(t, spec, c.want)
		})
	}
	b.check(os.Symlink("/nowhere/at/all", filepath.Join(b.root, "dangling")))
	b.check(os.Symlink("loop", filepath.Join(b.root, "loop")))
	for name, dir := range map[string]string{
		"file": "/etc/passwd", "below a file": "/etc/passwd/x", "dangling": "/dangling", "below dangling": "/dangling/x", "loop": "/loop/x",
		"too long": long, "too long a name": component + "d", "device": "/dev/null", "in proc": "/proc/new", "read-only": "/sys/new",
	} {
		t.Run(name, func(t *testing.T) {
			for _, user := range []string{"", "alice"} {
				spec := sh("true")
				spec.Dir, spec.User = dir, user
				b.refused(t, spec, sdk.Invalid, sdk.ReasonPath)
			}
		})
	}
	if _, err := os.Lstat(filepath.Join(b.root, "nowhere")); !os.IsNotExist(err) {
		t.Errorf("the end of a dangling link was made: %v", err)
	}
}

func TestDirOfReadOnlyRoot(t *testing.T) {
	b := newBox(t, setting{spec: func(s *engine.Spec) { s.ReadonlyRootfs = true }})
	spec := sh("/bin/pwd")
	spec.Dir = "/bin"
	b.says(spec, "/bin\n")
	spec.Dir = "/new"
	b.refused(t, spec, sdk.Invalid, sdk.ReasonPath)
	spec.Dir = "/dev/shm/new/er"
	b.says(spec, "/dev/shm/new/er\n")
}

func TestDirOfKeeperThatIsNotRoot(t *testing.T) {
	b := newBox(t, notRoot())
	b.check(os.MkdirAll(filepath.Join(b.root, "secret/open"), 0o755))
	b.check(os.Chmod(filepath.Join(b.root, "secret"), 0o700))
	for dir, want := range map[string]string{"/": "/\n", "/tmp/a/b": "/tmp/a/b\n"} {
		spec := sh("/bin/pwd")
		spec.Dir = dir
		b.says(spec, want)
	}
	for _, dir := range []string{"/secret", "/secret/open", "/secret/new", "/new"} {
		spec := sh("/bin/pwd")
		spec.Dir = dir
		b.refused(t, spec, sdk.Invalid, sdk.ReasonPath)
	}
}

// TestDirIsNotAWayIn has a user put links where a directory is being made for it: nothing else may become the user's own.
func TestDirIsNotAWayIn(t *testing.T) {
	b := newBox(t, setting{})
	b.write("prize/secret", "root's", 0o600)
	swap := sh("echo go; while :; do rmdir /tmp/t/d 2>/dev/null && ln -s /prize /tmp/t/d; rm -f /tmp/t/d; done")
	mine := sh("mkdir /tmp/t")
	swap.User, mine.User = "alice", "alice"
	b.says(mine, "")
	attacker := b.open(swap)
	attacker.expect("go\n")
	for range 100 {
		spec := sdk.ProcessSpec{Path: "true", User: "alice", Dir: "/tmp/t/d"}
		if _, err := b.tryStart(spec); err != nil && reasonOf(err) != sdk.ReasonPath {
			t.Fatal(err)
		}
	}
	attacker.signal(sdk.KILL)
	attacker.end()
	b.says(sh("stat -c %u /prize /prize/secret"), "0\n0\n")
}

// notRoot is a box whose process 1 is user 1000 and no more.
func notRoot() setting {
	return setting{spec: func(s *engine.Spec) {
		s.User = engine.User{UID: 1000, GID: 1001}
		_ = os.Chown(s.Mounts[1].Source, 1000, 1001)
	}}
}
