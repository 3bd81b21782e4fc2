package shim

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// tree makes files of their names and contents; a name that ends in a slash is a directory's, a content that begins with -> a link's.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		at := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		to, link := strings.CutPrefix(content, "->")
		switch {
		case err != nil:
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(at, 0o755)
		case link:
			err = os.Symlink(to, at)
		default:
			err = os.WriteFile(at, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// holds gives what is in a tree, as tree takes it.
func holds(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(at string, e os.DirEntry, err error) error {
		if err != nil || at == dir {
			return err
		}
		name, _ := filepath.Rel(dir, at)
		switch {
		case e.IsDir():
			all[name+"/"] = ""
		case e.Type()&os.ModeSymlink != 0:
			to, err := os.Readlink(at)
			all[name] = "->" + to
			return err
		default:
			content, err := os.ReadFile(at)
			all[name] = string(content)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// needsRoot ends a test that nobody but root can make.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		testkit.Lacking(t, "root, to mount")
	}
}

// inRoot keeps a container in a root, and has a shell do something in it.
func inRoot(t *testing.T, r Root, script string) string {
	t.Helper()
	m := newMachine(t)
	args, err := r.Serve(m.scratch)
	if err != nil {
		t.Fatal(err)
	}
	m.run(t, nil, args...)
	d := m.driver(t, Options{Log: testLog(t)})
	if _, err := d.Ready(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	spec := sdk.ProcessSpec{ID: "p", Token: "t", Path: "/bin/sh", Args: []string{"-ec", script}, Dir: "/work"}
	if err := d.StartProcess(t.Context(), box, spec); err != nil {
		t.Fatal(err)
	}
	l := &listener{t: t}
	if err := d.FollowProcess(t.Context(), box, "p", 0, l.follow()); err != nil {
		t.Fatal(err)
	}
	if len(l.exits) != 1 || l.exits[0].Code != 0 {
		t.Errorf("%+v; it said %q, and on stderr %q", l.exits, l.out.String(), l.err.String())
	}
	return l.out.String()
}

// giveTo has the program and its scratch where a user reaches them.
func (m *machine) giveTo(t *testing.T, user int) {
	t.Helper()
	dir, err := os.MkdirTemp("", "shim")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, err := os.ReadFile(m.program)
	if err != nil {
		t.Fatal(err)
	}
	m.program, m.scratch = filepath.Join(dir, "slipway-shim"), filepath.Join(dir, "scratch")
	if err := errors.Join(os.WriteFile(m.program, program, 0o755), os.Chmod(dir, 0o755), os.Mkdir(m.scratch, 0o700), os.Chown(m.scratch, user, user)); err != nil {
		t.Fatal(err)
	}
}

// TestRoot has volumes where the machine has nothing, in its directories, in each other and below links: it sees nothing of that.
func TestRoot(t *testing.T) {
	needsRoot(t)
	machine := tree(t, map[string]string{"dir/file": "the machine's", "dir/sub/below": "as well", "dir/link": "->file"})
	outer, inner, sealed := tree(t, map[string]string{"f": "outer", "away": "->" + machine + "/dir"}), tree(t, map[string]string{"f": "inner"}), tree(t, map[string]string{"f": "sealed"})
	before := holds(t, machine)
	out := inRoot(t, Root{Mounts: []RootMount{
		{Source: inner, Target: "/slipway-test/outer/in/ner"},
		{Source: sealed, Target: "/slipway-test/outer/in/sealed", ReadOnly: true},
		{Source: outer, Target: "/slipway-test/outer"},
		{Source: sealed, Target: "/slipway-test/outer/away/new/one", ReadOnly: true},
		{Source: inner, Target: machine + "/dir/sub"},
	}}, `
		cd /slipway-test/outer
		cat f in/ner/f in/sealed/f
		cat away/file away/link away/new/one/f away/sub/f `+machine+`/dir/new/one/f
		[ ! -e away/sub/below ]
		! echo no 2>/dev/null > in/sealed/f
		! mkdir in/sealed/d 2>/dev/null
		echo >> in/ner/f
		echo mine > away/mine
		echo mine > /slipway-test-file
		cat `+machine+`/dir/mine
		pwd -P > in/ner/where; cd /work; pwd -P
		[ -e /proc/self/stat ] && [ -c /dev/null ] && [ ! -e /old_root_of_shim ]
	`)
	if want := "outerinnersealed" + "the machine'sthe machine'ssealedinnersealed" + "mine\n/work\n"; out != want {
		t.Errorf("it said %q, want %q", out, want)
	}
	if now := holds(t, machine); !maps.Equal(now, before) {
		t.Errorf("on the machine there is %q, it was %q", now, before)
	}
	if _, err := os.Lstat("/slipway-test"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was made on the machine: %v", err)
	}
	if _, err := os.Lstat("/slipway-test-file"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was made on the machine: %v", err)
	}
	if got, want := holds(t, inner), map[string]string{"f": "inner\n", "where": "/slipway-test/outer\n"}; !maps.Equal(got, want) {
		t.Errorf("the inner volume holds %q, want %q", got, want)
	}
	if got, want := holds(t, outer), map[string]string{"f": "outer", "away": "->" + machine + "/dir", "in/": "", "in/ner/": "", "in/sealed/": ""}; !maps.Equal(got, want) {
		t.Errorf("the outer volume holds %q, want %q", got, want)
	}
	if got := holds(t, sealed); !maps.Equal(got, map[string]string{"f": "sealed"}) {
		t.Errorf("the sealed volume holds %q", got)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, filepath.Dir(machine)) { // where all directories of this test are
			t.Errorf("the machine sees a mount: %s", line)
		}
	}
}

// TestRootImage has an image's directory as the root.
func TestRootImage(t *testing.T) {
	needsRoot(t)
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err, "; make deps installs a static one")
	}
	sh, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	v := tree(t, map[string]string{"f": "volume"})
	image := tree(t, map[string]string{"bin/sh": string(sh), "etc/": "", "var/lib": "->../data"})
	if err := os.Chmod(filepath.Join(image, "bin/sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	canary := tree(t, map[string]string{"file": "the machine's"})
	out := inRoot(t, Root{Image: image, Mounts: []RootMount{{Source: v, Target: "/a/b"}}}, `
		read line < /a/b/f || true; echo "$line"
		[ -e /proc/self/stat ] && [ -c /dev/null ] && [ -s /etc/hosts ]
		[ ! -e `+canary+` ]
		! echo no 2>/dev/null > /etc/hosts
		cd /; echo *; pwd; echo more > /bin/more
	`)
	if want := "volume\na bin dev etc proc sys var work\n/\n"; out != want {
		t.Errorf("it said %q, want %q", out, want)
	}
	if text, err := os.ReadFile(filepath.Join(image, "bin/more")); err != nil || string(text) != "more\n" {
		t.Errorf("what was written to the root is %q, %v", text, err)
	}
}

// TestRootRefused asks for roots that cannot be: the keeper says why, to whoever asks.
func TestRootRefused(t *testing.T) {
	needsRoot(t)
	v, machine := tree(t, map[string]string{"f": "", "dangling": "->nowhere"}), tree(t, map[string]string{"file": ""})
	const nobody = 65534
	for name, c := range map[string]struct {
		root  Root
		as    *syscall.SysProcAttr
		wants []error
	}{
		"a file":         {root: Root{Mounts: []RootMount{{v, machine + "/file", false}}}, wants: []error{sdk.Invalid, sdk.ReasonPath}},
		"below a file":   {root: Root{Mounts: []RootMount{{v, machine + "/file/d", false}}}, wants: []error{sdk.Invalid, sdk.ReasonPath}},
		"a dead link":    {root: Root{Mounts: []RootMount{{v, "/v", false}, {v, "/v/dangling", false}}}, wants: []error{sdk.Invalid, sdk.ReasonPath}},
		"in read-only":   {root: Root{Mounts: []RootMount{{v, "/v", true}, {v, "/v/d", false}}}, wants: []error{sdk.Invalid, sdk.ReasonPath}},
		"no volume":      {root: Root{Mounts: []RootMount{{machine + "/nothing", "/v", false}}}, wants: []error{sdk.FailedPrecondition}},
		"no image":       {root: Root{Image: machine + "/nothing"}, wants: []error{sdk.FailedPrecondition}},
		"not allowed to": {as: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}, wants: []error{sdk.Unsupported}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			if c.as != nil {
				m.giveTo(t, nobody)
			}
			args, err := c.root.Serve(m.scratch)
			if err != nil {
				t.Fatal(err)
			}
			m.run(t, c.as, args...)
			d := m.driver(t, Options{})
			for range 2 {
				_, err := d.Ready(t.Context(), box)
				for _, want := range c.wants {
					if !errors.Is(err, want) {
						t.Errorf("%v, want %v", err, want)
					}
				}
			}
			if err := d.StartProcess(t.Context(), box, sdk.ProcessSpec{ID: "p", Token: "t", Path: "/bin/true"}); !errors.Is(err, c.wants[0]) {
				t.Errorf("a start: %v", err)
			}
			if !maps.Equal(holds(t, machine), map[string]string{"file": ""}) || !maps.Equal(holds(t, v), map[string]string{"f": "", "dangling": "->nowhere"}) {
				t.Error("something was made")
			}
		})
	}
}
