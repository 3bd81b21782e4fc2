//go:build linux

package onrunc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
)

const (
	rootPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	userPath = "/usr/local/bin:/usr/bin:/bin"
	whoami   = `id -u; id -g; echo $(id -G | tr ' ' '\n' | sort -n); echo "HOME=$HOME USER=${USER-none} PATH=$PATH"; grep -E 'CapEff|CapPrm|CapAmb' /proc/self/status | grep -v 0000000000000000 | wc -l`
)

func TestUsers(t *testing.T) {
	b := newBox(t, setting{})
	for name, c := range map[string]struct{ user, want string }{
		"none":             {"", "0\n0\n0\nHOME=/root USER=none PATH=" + rootPath + "\n2\n"},
		"root":             {"root", "0\n0\n0\nHOME=/root USER=root PATH=" + rootPath + "\n2\n"},
		"name":             {"alice", "1000\n1001\n10 29 1001\nHOME=/home/alice USER=alice PATH=" + userPath + "\n0\n"},
		"uid of a name":    {"1000", "1000\n1001\n10 29 1001\nHOME=/home/alice USER=1000 PATH=" + userPath + "\n0\n"},
		"uid:gid":          {"1000:7", "1000\n7\n7\nHOME=/home/alice USER=1000 PATH=" + userPath + "\n0\n"},
		"name:group":       {"alice:audio", "1000\n29\n29\nHOME=/home/alice USER=alice PATH=" + userPath + "\n0\n"},
		"name:gid":         {"bob:4", "1002\n4\n4\nHOME=/ USER=bob PATH=" + userPath + "\n0\n"},
		"uid of nobody":    {"4242", "4242\n0\n0\nHOME=/ USER=4242 PATH=" + userPath + "\n0\n"},
		"both of nobody":   {"4242:4243", "4242\n4243\n4243\nHOME=/ USER=4242 PATH=" + userPath + "\n0\n"},
		"root's other gid": {"0:29", "0\n29\n29\nHOME=/root USER=0 PATH=" + rootPath + "\n2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := sh(whoami)
			spec.User = c.user
			b.prints(t, spec, c.want)
		})
	}
	for _, user := range []string{"eve", "alice:nogroup", "eve:0", "-1", "4294967296", "0:99999999999", "a b"} {
		t.Run("not "+user, func(t *testing.T) {
			spec := sh("true")
			spec.User = user
			b.refused(t, spec, sdk.Invalid, sdk.ReasonUserNotFound)
		})
	}
}

// TestUserFiles has the container's own list of users missing, or put there by somebody who means harm.
func TestUserFiles(t *testing.T) {
	b := newBox(t, setting{})
	passwd, group := filepath.Join(b.root, "etc/passwd"), filepath.Join(b.root, "etc/group")
	long := strings.Repeat("x", 1<<20)
	for name, put := range map[string]func(name string) error{
		"missing":   func(string) error { return nil },
		"fifo":      func(name string) error { return syscall.Mkfifo(name, 0o666) },
		"directory": func(name string) error { return os.Mkdir(name, 0o755) },
		"loop":      func(name string) error { return os.Symlink(filepath.Base(name), name) },
		"dangling":  func(name string) error { return os.Symlink("/nowhere", name) },
		"device":    func(name string) error { return os.Symlink("/dev/zero", name) },
		"terminal":  func(name string) error { return os.Symlink("/dev/ptmx", name) },
		"empty":     func(name string) error { return os.WriteFile(name, nil, 0o644) },
		"garbage": func(name string) error {
			return os.WriteFile(name, []byte(":::\n\x00\xff\nx:y\n:x:-1:-1:::\nq:q:9999999999999999999:z\n"), 0o644)
		},
		"long line": func(name string) error { return os.WriteFile(name, []byte(long), 0o644) },
		"huge": func(name string) error {
			f, err := os.Create(name)
			for range testkit.Times(20, 100) { // a mebibyte each: more than is read
				if err == nil {
					_, err = f.WriteString(strings.Repeat("nobody:x:65534:65534::/:/bin/false\n", 30_000))
				}
			}
			return errors.Join(err, f.Close())
		},
		"sparse": func(name string) error { return errors.Join(os.WriteFile(name, nil, 0o644), os.Truncate(name, 1<<40)) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, file := range []string{passwd, group} {
				b.check(os.RemoveAll(file))
				b.check(put(file))
			}
			script := "while read a b c; do case $a in Uid:|Gid:) echo $b;; esac; done </proc/self/status; echo $HOME" // id would read them
			for user, want := range map[string]string{"": "0\n0\n/\n", "1000": "1000\n0\n/\n", "1000:12": "1000\n12\n/\n"} {
				spec := sh(script)
				spec.User = user
				b.prints(t, spec, want)
			}
			for _, user := range []string{"alice", "root", "1000:audio"} {
				spec := sh("true")
				spec.User = user
				b.refused(t, spec, sdk.Invalid, sdk.ReasonUserNotFound)
			}
		})
	}
}

// TestUserNamespace has the keeper as root of a user namespace.
func TestUserNamespace(t *testing.T) {
	b := newBox(t, inUserNamespace(engine.User{}))
	for user, want := range map[string]string{"": "0 0\n", "root": "0 0\n", "alice": "1000 1001\n", "1000:7": "1000 7\n", "4000": "4000 0\n"} {
		t.Run("as "+user, func(t *testing.T) {
			spec := sh("echo $(id -u) $(id -g)")
			spec.User = user
			b.prints(t, spec, want)
		})
	}
	for _, user := range []string{"70000", "0:70000"} {
		t.Run("not mapped "+user, func(t *testing.T) {
			spec := sh("true")
			spec.User = user
			b.refused(t, spec, sdk.Invalid, sdk.ReasonUserNotFound)
		})
	}
	spec := sh("tty && stty size; id -u; sleep 100 & setsid sleep 100 & wait")
	spec.User, spec.TTY = "alice", &sdk.TTY{}
	p := b.open(spec)
	p.expect("24 80\r\n1000\r\n")
	p.signal(sdk.KILL)
	if r := p.end(); r.exit.Signal != sdk.KILL {
		t.Errorf("%+v", r.exit)
	}
	b.awaitQuiet()
}

// inUserNamespace is a box in a user namespace of 65,536 users.
func inUserNamespace(keeper engine.User) setting {
	const first = 200_000
	return setting{spec: func(s *engine.Spec) {
		s.UIDs = []engine.IDMap{{Container: 0, Host: first, Size: 1 << 16}}
		s.GIDs = s.UIDs
		s.User = keeper
		_ = filepath.WalkDir(s.Rootfs, func(name string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(name, first, first)
		})
		_ = os.Lchown(s.Mounts[1].Source, first+int(keeper.UID), first+int(keeper.GID))
	}}
}

// TestGroupsDenied has the keeper in a user namespace that somebody without privileges could have made.
func TestGroupsDenied(t *testing.T) {
	b := newBox(t, setting{spec: func(s *engine.Spec) {
		s.Args = append([]string{"/bin/unshare", "-U", "-r"}, s.Args...)
	}})
	b.says(sh("cat /proc/self/setgroups"), "deny\n")
	for _, user := range []string{"", "root", "0", "0:0"} {
		spec := sh("id -u; id -g")
		spec.User = user
		b.says(spec, "0\n0\n")
	}
	spec := sh("true")
	spec.User = "alice"
	b.refused(t, spec, sdk.Invalid, sdk.ReasonUserNotFound)
}
