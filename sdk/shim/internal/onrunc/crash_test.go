//go:build linux

package onrunc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// dice are seeded from SLIPWAY_SEED, or anew; the seed is printed where a test fails.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newDice(t testing.TB) *dice {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SLIPWAY_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("SLIPWAY_SEED=%d", seed)
	return &dice{r: rand.New(rand.NewPCG(seed, 1))}
}

func (d *dice) below(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// pass waits for a random moment: what it hits is the point.
func (d *dice) pass(atMost time.Duration) {
	if us := d.below(int(atMost/time.Microsecond) + 1); us > 0 {
		time.Sleep(time.Duration(us) * time.Microsecond)
	}
}

// repeats is how often a race is run.
func repeats(n int) int {
	n = testkit.Times(n/10, n)
	if testkit.Race {
		n /= 5
	}
	return max(n, 10)
}

// each runs f for 0 to n-1, some at once, and reports the errors.
func each(t *testing.T, n, atOnce int, f func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	next, failed := 0, 0
	for range atOnce {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := i >= n || failed > 5
				mu.Unlock()
				if stop {
					return
				}
				if err := f(i); err != nil {
					mu.Lock()
					failed++
					mu.Unlock()
					t.Errorf("round %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

// story is all that one call of FollowProcess told, checked as it came.
type story struct {
	mu     sync.Mutex
	out    [3][]byte // by stream
	next   sdk.Position
	gaps   int64
	exit   *sdk.Exit
	opened chan struct{}
	once   sync.Once
	wrong  error
	hooks  sdk.Follow // Opened and Output are called after ours, the rest is taken as it is
	stdin  []byte     // unless nil, fed from what was taken on, by a reader of its own for each call: a Read of an earlier one may still be under way
}

func newStory(from sdk.Position) *story { return &story{next: from, opened: make(chan struct{})} }

func (s *story) follow() sdk.Follow {
	f := s.hooks
	in := bytes.NewReader(s.stdin)
	if s.stdin != nil {
		f.Stdin = in
	}
	f.Opened = func(o sdk.Opened) error {
		s.once.Do(func() { close(s.opened) })
		if _, err := in.Seek(o.StdinTaken, io.SeekStart); err != nil {
			return err
		}
		if s.hooks.Opened != nil {
			return s.hooks.Opened(o)
		}
		return nil
	}
	f.Output = func(records []sdk.Record) error {
		s.mu.Lock()
		for _, r := range records {
			switch {
			case r.Position != s.next:
				s.fail("a record at %d where %d comes next", r.Position, s.next)
			case s.exit != nil:
				s.fail("output after the exit")
			}
			s.next = r.End()
			if r.IsGap() {
				s.gaps += int64(r.GapTo - r.Position)
				continue
			}
			s.out[r.Stream] = append(s.out[r.Stream], r.Data...)
		}
		s.mu.Unlock()
		if s.hooks.Output != nil {
			return s.hooks.Output(records)
		}
		return nil
	}
	f.Exit = func(e sdk.Exit) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.exit != nil {
			s.fail("a second exit")
		}
		s.exit = &e
		return nil
	}
	return f
}

func (s *story) fail(format string, args ...any) {
	if s.wrong == nil {
		s.wrong = fmt.Errorf(format, args...)
	}
}

func (s *story) stdout() string { return string(s.out[sdk.Stdout]) }

// is checks a story that has ended.
func (s *story) is(stdout, stderr string, code int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.wrong != nil:
		return s.wrong
	case s.gaps > 0:
		return fmt.Errorf("%d bytes are a gap", s.gaps)
	case s.stdout() != stdout || string(s.out[sdk.Stderr]) != stderr:
		return fmt.Errorf("stdout %s and stderr %s, want %s and %s", brief(s.stdout()), brief(string(s.out[sdk.Stderr])), brief(stdout), brief(stderr))
	case s.exit == nil:
		return errors.New("no exit")
	case s.exit.Code != code || s.exit.OutputCut:
		return fmt.Errorf("exit %+v, want %d", *s.exit, code)
	}
	return nil
}

func brief(s string) string {
	if len(s) > 100 {
		return fmt.Sprintf("%q… (%d bytes)", s[:100], len(s))
	}
	return strconv.Quote(s)
}

// ends follows to the end and checks.
func (b *box) ends(ctx context.Context, id sdk.ProcessID, stdout, stderr string, code int) error {
	s := newStory(0)
	if err := b.FollowProcess(ctx, b.id, id, 0, s.follow()); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	return s.is(stdout, stderr, code)
}

// journalled waits until the keeper has taken what a process writes first, and acknowledges none of it.
func (b *box) journalled(ctx context.Context, id sdk.ProcessID, text string) error {
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	var got []byte
	err := b.FollowProcess(ctx, b.id, id, 0, sdk.Follow{Output: func(records []sdk.Record) error {
		for _, r := range records {
			got = append(got, r.Data...)
		}
		if len(got) >= len(text) {
			enough()
		}
		return nil
	}})
	if string(got) == text {
		return nil
	}
	return fmt.Errorf("%q has written %q, want %q: %w", id, got, text, err)
}

// listed gives one process of the list.
func (b *box) listed(ctx context.Context, id sdk.ProcessID) (sdk.ProcessInfo, error) {
	all, err := b.ListProcesses(ctx, b.id)
	if err != nil {
		return sdk.ProcessInfo{}, err
	}
	for _, p := range all {
		if p.ID == id {
			return p, nil
		}
	}
	return sdk.ProcessInfo{}, sdk.NewNotFound(sdk.KindProcess, string(id))
}

func newID(prefix string, i int) sdk.ProcessID { return sdk.ProcessID(prefix + "-" + strconv.Itoa(i)) }

// counted is a process that leaves a line behind each time that it runs.
func counted(id sdk.ProcessID, script string) sdk.ProcessSpec {
	return sdk.ProcessSpec{ID: id, Token: sdk.NewToken(), Path: "sh",
		Args: []string{"-c", "echo $0 $1 >>/tmp/runs; " + script, string(id)}}
}

// runs tells how often each counted process has run.
func (b *box) runs() map[string]int {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.root, "tmp", "runs"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	runs := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		runs[strings.TrimSpace(line)]++
	}
	return runs
}

// ranOnce checks that each process that has run has run once, and that it was n of them.
func (b *box) ranOnce(n int) {
	b.t.Helper()
	runs := b.runs()
	for id, times := range runs {
		if times != 1 {
			b.t.Errorf("%q ran %d times", id, times)
		}
	}
	if len(runs) != n {
		b.t.Errorf("%d processes ran, want %d", len(runs), n)
	}
}

// inside is a process of the container, as this machine numbers it.
type inside struct {
	pid, parent int
	verb        string // of the shim; empty: something else
	name, state string
}

// processes lists those of the container.
func (b *box) processes() []inside {
	b.t.Helper()
	var all []inside
	for _, pid := range b.members() {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil {
			continue // it is gone
		}
		end := bytes.LastIndexByte(stat, ')')
		f := strings.Fields(string(stat[end+1:]))
		p := inside{pid: pid, name: string(stat[bytes.IndexByte(stat, '(')+1 : end]), state: f[0]}
		p.parent, _ = strconv.Atoi(f[1])
		cmdline, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if args := strings.Split(string(cmdline), "\x00"); len(args) > 1 && (args[0] == programPath || args[0] == "slipway-shim") {
			p.verb = args[1]
		}
		all = append(all, p)
	}
	return all
}

// members are the pids of the container's control group.
func (b *box) members() []int {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.cgroup("pids"), "cgroup.procs"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	b.check(err)
	var pids []int
	for _, f := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(f)
		b.check(err)
		pids = append(pids, pid)
	}
	return pids
}

// cgroup is the container's directory for a controller.
func (b *box) cgroup(controller string) string {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if dir, ok := b.cgroups[controller]; ok {
		return dir
	}
	info, err := b.engine.State(b.t.Context(), string(b.id))
	b.check(err)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", info.PID))
	b.check(err)
	dir := ""
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if f[1] == "" && dir == "" {
			dir = filepath.Join("/sys/fs/cgroup", f[2])
		}
		for name := range strings.SplitSeq(f[1], ",") {
			if name == controller {
				dir = filepath.Join("/sys/fs/cgroup", name, f[2])
			}
		}
	}
	if b.cgroups == nil {
		b.cgroups = make(map[string]string)
	}
	b.cgroups[controller] = dir
	return dir
}

// keeper is the supervisor's pid.
func (b *box) keeper() int {
	b.t.Helper()
	for _, p := range b.processes() {
		if p.verb == "serve" || p.verb == "daemon" {
			return p.pid
		}
	}
	b.t.Fatal("there is no supervisor")
	return 0
}

// find gives the processes of a verb.
func (b *box) find(verb string) (found []inside) {
	for _, p := range b.processes() {
		if p.verb == verb {
			found = append(found, p)
		}
	}
	return found
}

// monitors gives those that have a command.
func (b *box) monitors() (found []inside) {
	all := b.processes()
	for _, m := range all {
		for _, p := range all {
			if m.verb == "monitor" && p.parent == m.pid {
				found = append(found, m)
				break
			}
		}
	}
	return found
}

// commands gives what is neither the shim nor an exec's.
func (b *box) commands() (found []inside) {
	for _, p := range b.processes() {
		if p.verb == "" && p.state != "Z" && !strings.HasPrefix(p.name, "runc") {
			found = append(found, p)
		}
	}
	return found
}

// openBox is a box that another process has made, and takes away.
func openBox(dir string) (*box, error) {
	b := &box{dir: dir, root: filepath.Join(dir, "root"), scratch: filepath.Join(dir, "scratch"), id: "box"}
	var err error
	b.engine, err = engine.New(filepath.Join(dir, "state"), engine.Options{})
	b.Driver = shim.New(b.exec, shim.Options{})
	return b, err
}

// plugin is this test's program as a plugin of the box.
func (b *box) plugin(t *testing.T, store string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), pluginJob+"="+b.dir+":"+store)
	cmd.Stderr = new(bytes.Buffer)
	return cmd
}
