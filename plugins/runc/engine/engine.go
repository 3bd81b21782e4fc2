//go:build linux

package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// The errors that callers decide by. They come wrapped, with the container's id.
var (
	ErrNotFound   = errors.New("no such container")
	ErrNotRunning = errors.New("the container does not run")
	ErrExists     = errors.New("the container exists already")
)

// Options are the optional settings of [New].
type Options struct {
	Runc string // path or name of the program; empty: "runc" from PATH
}

// Engine makes and drives containers. All methods may be called from many goroutines at once, but for Create and Delete of one and
// the same id: whoever calls those sees to their order.
type Engine struct {
	runc string
	dir  string

	mu       sync.Mutex
	running  map[string]map[*running]struct{} // commands of this process in each container
	deleting map[string]bool
}

// New makes an engine with its state below a directory, which it makes where missing, for root alone. What an engine
// with the same directory left there is found again.
func New(dir string, opts Options) (*Engine, error) {
	runc, err := exec.LookPath(cmp.Or(opts.Runc, "runc"))
	if err != nil {
		return nil, fmt.Errorf("runc: %w; install it or name its path", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if strings.ContainsAny(dir, ":,\\") {
		return nil, fmt.Errorf("directory %q: an overlay's options cannot hold \":\", \",\" and \"\\\"; choose another", dir)
	}
	e := &Engine{runc: runc, dir: dir, running: make(map[string]map[*running]struct{}), deleting: make(map[string]bool)}
	if err := os.MkdirAll(dir, 0o711); err != nil { // a container's own root may have to pass
		return nil, err
	}
	if err := os.MkdirAll(e.runcRoot(), 0o700); err != nil {
		return nil, err
	}
	return e, os.MkdirAll(e.bundles(), 0o711)
}

func (e *Engine) runcRoot() string        { return filepath.Join(e.dir, "runc") }
func (e *Engine) bundles() string         { return filepath.Join(e.dir, "bundles") }
func (e *Engine) bundle(id string) string { return filepath.Join(e.bundles(), id) }

// cgroup is one level deep, so that nothing is left when the container is gone, and tells engines of one machine apart.
func (e *Engine) cgroup(id string) string {
	sum := sha256.Sum256([]byte(e.dir))
	return fmt.Sprintf("/slipway-%x-%s", sum[:4], id)
}

var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)

func checkID(id string) error {
	if validID.MatchString(id) {
		return nil
	}
	return fmt.Errorf("container id %q must be 1 to 100 of letters, digits, \"_\", \".\" and \"-\", the first a letter or digit", id)
}

// RuncError is a failure of runc itself.
type RuncError struct {
	Op        string // such as "exec"
	Container string
	Message   string // in runc's words
	Err       error  // how the program ended
}

// Error names the container.
func (r *RuncError) Error() string {
	return fmt.Sprintf("runc %s of container %q: %s", r.Op, r.Container, cmp.Or(r.Message, r.Err.Error()))
}

// Unwrap gives how the program ended.
func (r *RuncError) Unwrap() error { return r.Err }

// call runs runc to its end, for commands that answer by themselves. It must not be used where runc hands its stdio on.
func (e *Engine) call(ctx context.Context, id, op string, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, e.runc, append([]string{"--root", e.runcRoot(), "--log-format", "json", op}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := runBound(cmd)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, &RuncError{Op: op, Container: id, Message: lastMessage(&stderr), Err: err}
	}
	return stdout.Bytes(), nil
}

// runBound runs a command that is killed when this process is, so that whoever comes after it finds nobody at work on a container.
func runBound(cmd *exec.Cmd) error {
	runtime.LockOSThread() // the kernel sends the signal when the thread ends that has started the command
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}

// lastMessage takes what runc says last out of its log.
func lastMessage(log io.Reader) string {
	var last string
	for d := json.NewDecoder(log); ; {
		var line struct{ Level, Msg string }
		if d.Decode(&line) != nil {
			return last
		}
		if line.Level == "error" || last == "" {
			last = line.Msg
		}
	}
}
