//go:build linux

package gardentest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"code.cloudfoundry.org/garden"
	"github.com/google/go-cmp/cmp"
)

func TestContainer(t *testing.T) {
	w := newWorld(t, Options{})
	c := w.create(t, "one", func(s *garden.ContainerSpec) {
		s.Properties = garden.Properties{"a": "1"}
		s.Env = []string{"FROM=container", "KEEP=1"}
	})
	t.Run("create", func(t *testing.T) {
		for name, change := range map[string]func(*garden.ContainerSpec){
			"duplicate":       func(s *garden.ContainerSpec) { s.Handle = "one" },
			"no rootfs":       func(s *garden.ContainerSpec) { s.RootFSPath = "" },
			"missing rootfs":  func(s *garden.ContainerSpec) { s.RootFSPath = "raw:///does/not/exist" },
			"rootfs is file":  func(s *garden.ContainerSpec) { s.RootFSPath = "raw://" + w.root + "/etc/passwd" },
			"rootfs by image": func(s *garden.ContainerSpec) { s.RootFSPath = "docker:///busybox" },
			"handle":          func(s *garden.ContainerSpec) { s.Handle = "../one" },
			"missing source": func(s *garden.ContainerSpec) {
				s.BindMounts = []garden.BindMount{{SrcPath: "/does/not/exist", DstPath: "/mnt"}}
			},
		} {
			if _, err := w.tryCreate("two", change); err == nil {
				t.Errorf("%s: no error", name)
			}
			if got := w.Containers(t); !slices.Equal(got, []string{"one"}) {
				t.Errorf("%s: containers %q", name, got)
			}
		}
	})
	t.Run("run", func(t *testing.T) {
		for _, test := range []struct {
			name  string
			spec  garden.ProcessSpec
			stdin string
			want  result
		}{
			{"output", garden.ProcessSpec{Path: "sh", Args: []string{"-c", "echo out; echo err >&2"}}, "", result{0, "out\n", "err\n"}},
			{"code", garden.ProcessSpec{Path: "/bin/sh", Args: []string{"-c", "exit 7"}}, "", result{code: 7}},
			{"signal", garden.ProcessSpec{Path: "sh", Args: []string{"-c", "kill -TERM $$"}}, "", result{code: 143}},
			{"stdin", garden.ProcessSpec{Path: "cat"}, "some text", result{stdout: "some text"}},
			{"env", garden.ProcessSpec{Path: "sh", Args: []string{"-c", "echo $FROM $KEEP $HOME"}, Env: []string{"FROM=process"}}, "", result{stdout: "process 1 /root\n"}},
			{"dir", garden.ProcessSpec{Path: "pwd", Dir: "/etc"}, "", result{stdout: "/etc\n"}},
			{"root", garden.ProcessSpec{Path: "id"}, "", result{stdout: "uid=0(root) gid=0(root)\n"}},
			{"user", garden.ProcessSpec{Path: "id", User: "app"}, "", result{stdout: "uid=1000(app) gid=1000(app) groups=2000(extra)\n"}},
			{"number", garden.ProcessSpec{Path: "id", Args: []string{"-u"}, User: "4711"}, "", result{stdout: "4711\n"}},
			{"hostname", garden.ProcessSpec{Path: "hostname"}, "", result{stdout: "one\n"}},
		} {
			t.Run(test.name, func(t *testing.T) {
				got := run(t, c, test.spec, strings.NewReader(test.stdin))
				if got != test.want {
					t.Errorf("got %+v, want %+v", got, test.want)
				}
			})
		}
		for _, path := range []string{"nothing-of-this-name", "/etc/passwd", "/bin/../does/not/exist"} {
			_, err := c.Run(garden.ProcessSpec{Path: path}, garden.ProcessIO{})
			if !isType[garden.ExecutableNotFoundError](err) {
				t.Errorf("run of %s: %v (%T)", path, err, err)
			}
		}
		if _, err := c.Run(garden.ProcessSpec{Path: "true", User: "stranger"}, garden.ProcessIO{}); err == nil {
			t.Error("run as an unknown user: no error")
		}
	})
	t.Run("isolation", func(t *testing.T) {
		info, err := os.Stat(w.root)
		if err != nil {
			t.Fatal(err)
		}
		if uid := ownerOf(info); uid != 4294967294 {
			t.Errorf("the image belongs to user %d", uid)
		}
		if got := sh(t, c, "touch /made; stat -c %u /made; cat /proc/self/uid_map | tr -s ' '"); got != "0\n 0 4294967294 1\n 1 1 4294967293\n" {
			t.Errorf("users in the container: %q", got)
		}
		if info, err = os.Stat(w.root + "/made"); err != nil || ownerOf(info) != 4294967294 {
			t.Errorf("what root of a container makes belongs to %v, %v", info, err)
		}
		if got := sh(t, c, "ls /sys/class/net"); got != "lo\n" {
			t.Errorf("networks: %q", got)
		}
	})
	t.Run("properties", func(t *testing.T) {
		if err := c.SetProperty("b", "2"); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Properties(); err != nil || cmp.Diff(garden.Properties{"a": "1", "b": "2"}, got) != "" {
			t.Errorf("properties %v, %v", got, err)
		}
		if got, err := c.Property("a"); err != nil || got != "1" {
			t.Errorf("property a: %q, %v", got, err)
		}
		if err := c.RemoveProperty("b"); err != nil {
			t.Error(err)
		}
		if got, err := c.Property("b"); err == nil {
			t.Errorf("a removed property is %q", got)
		}
		for value, want := range map[string]int{"1": 1, "2": 0} {
			found, err := w.client.Containers(garden.Properties{"a": value})
			if err != nil || len(found) != want {
				t.Errorf("containers with a=%s: %v, %v", value, found, err)
			}
		}
	})
	t.Run("mounts", w.testMounts)
	t.Run("limits", w.testLimits)
	t.Run("network", func(t *testing.T) {
		c := w.create(t, "net", func(s *garden.ContainerSpec) { s.NetOut = []garden.NetOutRule{{Protocol: garden.ProtocolAll}} })
		port := strings.TrimPrefix(w.Garden, "tcp://127.0.0.1:")
		if got := sh(t, c, "wget -q -O - http://127.0.0.1:"+port+"/ping"); got != "{}\n" {
			t.Errorf("the machine's network: %q", got)
		}
	})
	t.Run("privileged", func(t *testing.T) {
		root := w.Volume(t, "privileged", Busybox(t), true) + "/rootfs"
		c := w.create(t, "priv", func(s *garden.ContainerSpec) { s.RootFSPath, s.Privileged = "raw://"+root, true })
		got := sh(t, c, "cat /proc/self/uid_map | tr -s ' '; mount -t tmpfs none /tmp && echo mounted")
		if got != " 0 0 4294967295\nmounted\n" {
			t.Errorf("users and rights: %q", got)
		}
	})
	t.Run("stop", func(t *testing.T) { testStop(t, c) })
	t.Run("client gone", w.testClientGone)
	t.Run("restart", w.testRestart)
	t.Run("unknown", func(t *testing.T) {
		if err := w.client.Destroy("stranger"); !isType[garden.ContainerNotFoundError](err) {
			t.Errorf("destroy: %v (%T)", err, err)
		}
		if _, err := c.Attach("stranger", garden.ProcessIO{}); !isType[garden.ProcessNotFoundError](err) {
			t.Errorf("attach: %v (%T)", err, err)
		}
	})
}

// TestDifferent has what the options change, and the naive driver.
func TestDifferent(t *testing.T) {
	w := newWorld(t, Options{Driver: "naive", Unix: true, StrictMounts: true, MaxContainers: 1, NoLimits: true, NoUserNamespaces: true})
	if w.Driver != "naive" || !strings.HasPrefix(w.Garden, "unix:///") {
		t.Errorf("driver %s, Garden at %s", w.Driver, w.Garden)
	}
	outer := w.Volume(t, "outer", nil, false)
	if err := os.Mkdir(filepath.Join(outer, "inner"), 0o755); err != nil {
		t.Fatal(err)
	}
	bind := func(paths ...string) func(*garden.ContainerSpec) {
		return func(s *garden.ContainerSpec) {
			for _, p := range paths {
				s.BindMounts = append(s.BindMounts, garden.BindMount{SrcPath: outer, DstPath: p})
			}
		}
	}
	for _, p := range []string{"/not/there", "/tmp/../not-there"} {
		if _, err := w.tryCreate("strict", bind(p)); err == nil {
			t.Errorf("a container with a mount point %s that its root lacks: no error", p)
		}
	}
	if _, err := w.tryCreate("strict", bind("/home", "/home/app")); err == nil {
		t.Error("a container with a mount point that another mount hides: no error")
	}
	c := w.create(t, "strict", func(s *garden.ContainerSpec) {
		bind("/home", "/home/inner")(s)
		s.Limits.Memory.LimitInBytes = 1 << 20
	})
	if got := sh(t, c, "stat -c %u /etc/passwd; cat /proc/self/uid_map | tr -s ' '; cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null || true"); !strings.HasPrefix(got, "0\n 0 0 4294967295\n") || strings.Contains(got, "1048576\n") {
		t.Errorf("owner, users and limit: %q", got)
	}
	if _, err := w.tryCreate("second", nil); err == nil {
		t.Error("one container too many: no error")
	}
}

func isType[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
