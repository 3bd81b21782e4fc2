//go:build linux

package onrunc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// program is the shim, built once.
var program string

func TestMain(m *testing.M) {
	if job := os.Getenv(pluginJob); job != "" {
		os.Exit(plugin(job))
	}
	dir, err := os.MkdirTemp("", "onrunc")
	if err != nil {
		panic(err)
	}
	// A disk that others keep busy makes all of this many times as slow. Who may not mount makes no containers either.
	if unix.Mount("onrunc", dir, "tmpfs", 0, "mode=0755,size=2g") == nil {
		os.Setenv("TMPDIR", dir)
	}
	program = filepath.Join(dir, "slipway-shim")
	if err := testkit.Build(program, "../../cmd"); err != nil {
		panic(err)
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("8"); err != nil { // those that are mostly wait, and not for a processor
			panic(err)
		}
	}
	testkit.Main(m, func() {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		os.RemoveAll(dir)
	})
}

// needs ends a test where containers cannot be made.
func needs(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		testkit.Lacking(t, "root, to make containers")
	}
	if _, err := exec.LookPath("runc"); err != nil {
		testkit.Lacking(t, "runc (install Debian's runc): %v", err)
	}
	if _, err := os.Stat("/bin/busybox"); err != nil {
		testkit.Lacking(t, "a static busybox (install Debian's busybox-static): %v", err)
	}
}

// The places of the shim in a container.
const (
	programPath = "/slipway/shim"
	scratchPath = "/slipway/scratch"
)

// setting is what a box is like.
type setting struct {
	initMode bool // process 1 is the runtime's own; the supervisor comes of the first exec
	empty    bool // nothing in the rootfs, not even busybox
	spec     func(*engine.Spec)
	options  shim.Options
}

// box is a container with the shim in it.
type box struct {
	*shim.Driver
	t       testing.TB
	dir     string // on this machine, as the next two
	root    string
	scratch string
	engine  *engine.Engine
	id      sdk.ContainerID

	mu      sync.Mutex
	execs   []context.CancelFunc // of the relays
	count   int
	cgroups map[string]string // by controller, once asked for
}

// newBox makes a container whose keeper answers. All of it is taken away at the test's end.
func newBox(t testing.TB, m setting) *box {
	t.Helper()
	b := newContainer(t, m)
	ctx := testkit.Context(t)
	up := b.Ready
	if m.initMode {
		up = b.Start
	}
	_, err := up(ctx, b.id)
	for errors.Is(err, sdk.Unavailable) && ctx.Err() == nil { // an exec waits some seconds for a keeper: one more does no harm
		_, err = up(ctx, b.id)
	}
	b.check(err)
	return b
}

// newContainer is newBox, but for the keeper's answer.
func newContainer(t testing.TB, m setting) *box {
	t.Helper()
	needs(t)
	dir, err := os.MkdirTemp("", "box")
	if err != nil {
		t.Fatal(err)
	}
	b := &box{t: t, dir: dir, root: filepath.Join(dir, "root"), scratch: filepath.Join(dir, "scratch"), id: "box"}
	b.check(os.Chmod(dir, 0o755)) // a container's own root passes through
	b.engine, err = engine.New(filepath.Join(dir, "state"), engine.Options{})
	b.check(err)
	b.check(os.Mkdir(b.scratch, 0o700))
	b.check(os.Mkdir(b.root, 0o755))
	if !m.empty {
		b.furnish()
	}
	spec := engine.Spec{
		ID: string(b.id), Rootfs: b.root, Args: []string{programPath, "serve", scratchPath},
		Mounts: []engine.Mount{{Source: program, Path: programPath, ReadOnly: true}, {Source: b.scratch, Path: scratchPath}},
	}
	if m.initMode {
		spec.Args = []string{programPath, "pause"}
	}
	if m.spec != nil {
		m.spec(&spec)
	}
	m.options.HelloTimeout = cmp.Or(m.options.HelloTimeout, testkit.Bound(t))
	m.options.CallTimeout = cmp.Or(m.options.CallTimeout, testkit.Bound(t))
	b.Driver = shim.New(b.exec, m.options)
	t.Cleanup(b.remove)
	b.check(b.engine.Create(t.Context(), spec))
	return b
}

func (b *box) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// furnish makes a root with busybox and two users.
func (b *box) furnish() {
	b.t.Helper()
	for _, d := range []string{"bin", "etc", "tmp"} {
		b.check(os.Mkdir(filepath.Join(b.root, d), 0o755))
	}
	b.check(os.Chmod(filepath.Join(b.root, "tmp"), 0o777|os.ModeSticky))
	busybox := filepath.Join(b.root, "bin", "busybox")
	if out, err := exec.Command("cp", "/bin/busybox", busybox).CombinedOutput(); err != nil {
		b.t.Fatalf("cp: %v %s", err, out)
	}
	applets, err := exec.Command("/bin/busybox", "--list").Output()
	b.check(err)
	for _, applet := range strings.Fields(string(applets)) {
		if applet != "busybox" {
			b.check(os.Link(busybox, filepath.Join(b.root, "bin", applet)))
		}
	}
	b.check(os.WriteFile(filepath.Join(b.root, "etc/passwd"), []byte(
		"root:x:0:0::/root:/bin/sh\nalice:x:1000:1001::/home/alice:/bin/sh\nbob:x:1002:1002::/:/bin/sh\n"), 0o644))
	b.check(os.WriteFile(filepath.Join(b.root, "etc/group"), []byte(
		"root:x:0:\nalice:x:1001:\nwheel:x:10:alice,bob\naudio:x:29:alice\n"), 0o644))
}

// exec is the transport. It can be cut.
func (b *box) exec(ctx context.Context, container sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b.mu.Lock()
	b.execs = append(b.execs, cancel)
	b.count++
	b.mu.Unlock()
	err := b.engine.Exec(ctx, string(container), engine.Command{Args: argv}, stdin, stdout, stderr)
	if errors.Is(err, engine.ErrNotFound) {
		return sdk.NewNotFound(sdk.KindContainer, string(container))
	}
	if _, ok := errors.AsType[*engine.ExitError](err); ok {
		return nil
	}
	return err
}

// cut kills every exec that is under way.
func (b *box) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, cancel := range b.execs {
		cancel()
	}
	b.execs = nil
}

func (b *box) remove() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.t.Context()), testkit.Bound(b.t))
	defer cancel()
	if b.t.Failed() {
		if out, err := b.engine.Output(string(b.id), 4<<10); err == nil {
			b.t.Logf("the keeper's log: %s", out)
		}
	}
	if err := b.engine.Delete(ctx, string(b.id)); err != nil {
		b.t.Error(err)
		return // something may still be mounted below dir
	}
	b.Forget(b.id)
	if err := b.Close(); err != nil {
		b.t.Error(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(mounts, []byte(b.dir)) {
		b.t.Errorf("something is still mounted below %s (%v)", b.dir, err)
		return
	}
	if err := os.RemoveAll(b.dir); err != nil {
		b.t.Error(err)
	}
}

// sh is a process that runs a script.
func sh(script string) sdk.ProcessSpec {
	return sdk.ProcessSpec{Path: "sh", Args: []string{"-c", script}}
}

// start starts a process under an id of its own.
func (b *box) start(spec sdk.ProcessSpec) sdk.ProcessID {
	b.t.Helper()
	id, err := b.tryStart(spec)
	b.check(err)
	return id
}

func (b *box) tryStart(spec sdk.ProcessSpec) (sdk.ProcessID, error) {
	if spec.ID == "" {
		spec.ID = sdk.ProcessID(strings.ToLower("p-" + string(sdk.NewToken())))
	}
	if spec.Token == "" {
		spec.Token = sdk.NewToken()
	}
	return spec.ID, b.StartProcess(b.t.Context(), b.id, spec)
}

// result is what a process said and how it ended.
type result struct {
	stdout, stderr string
	exit           sdk.Exit
}

// follow awaits a process's end.
func (b *box) follow(id sdk.ProcessID) result {
	b.t.Helper()
	var r result
	b.check(b.FollowProcess(b.t.Context(), b.id, id, 0, r.follow()))
	return r
}

func (r *result) follow() sdk.Follow {
	return sdk.Follow{
		Output: func(records []sdk.Record) error {
			for _, rec := range records {
				if rec.Stream == sdk.Stderr {
					r.stderr += string(rec.Data)
				} else {
					r.stdout += string(rec.Data)
				}
			}
			return nil
		},
		Exit: func(e sdk.Exit) error { r.exit = e; return nil },
	}
}

// run is start and follow.
func (b *box) run(spec sdk.ProcessSpec) result {
	b.t.Helper()
	return b.follow(b.start(spec))
}

// says runs a script and compares what it prints.
func (b *box) says(spec sdk.ProcessSpec, want string) {
	b.t.Helper()
	if r := b.run(spec); r.stdout != want || r.exit.Code != 0 {
		b.t.Errorf("got %q and %q on stderr, exit %+v; want %q", r.stdout, r.stderr, r.exit, want)
	}
}
