//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shelf"
	"github.com/slipway-run/slipway/sdk/shim"
	"github.com/slipway-run/slipway/sdk/volumedir"
)

// Functions are what a plugin's author writes. They are called from many goroutines at once, but Create and Destroy of one container only one after
// another. An [*sdk.Error] comes to the host as it is. Other errors of Create and Destroy are Internal to the host, those of Exec
// Unavailable; they end up in messages, so they should say what was tried and what to do.
type Functions struct {
	// Create starts Command as root in the container, with Root as its root directory and Mounts mounted, in an environment that holds
	// none of the plugin's secrets. It returns when that runs; whether the command answers the machine finds out. What runs must not end with ctx, nor with
	// the plugin.
	Create func(ctx context.Context, c Container) error

	// Exec runs argv in the container, as root, with the streams copied, until it ends or ctx does: see [shim.Exec], which says the same.
	Exec func(ctx context.Context, c Container, argv []string, stdin io.Reader, stdout, stderr io.Writer) error

	// Destroy kills all that runs in the container, at once, and returns when nothing of it can write any more and nothing that Create mounted
	// is mounted. The machine removes Root and Dir. Idempotent; also for what Create has made in parts or not at all.
	Destroy func(ctx context.Context, c Container) error

	// Runs tells whether the command that Create started still runs, and if not, why, where that is known. Then the container is listed as gone, its processes are
	// told from what they left behind, and none starts. Nil: a container that has ended by itself is one that does not answer.
	Runs func(ctx context.Context, c Container) (runs bool, why string, err error)
}

// Container is what the functions have to know of one.
type Container struct {
	ID sdk.ContainerID // one of the host's, or of the machine's own: "Probe-" and capitals and digits

	Root    string   // the directory that is its root: its own, writable, with directories proc, sys and dev to mount at
	Mounts  []Mount  // volumes, outer ones first
	Command []string // what keeps its processes; its first argument is a path below Root

	// Own are the command's program, read-only, and the directory where it keeps records. Both are below Root already. A Create whose
	// container sees something else than Root itself, such as a layer over it that bounds what is written, mounts them there: a limit of
	// disk does not count the records, and the machine reads them in Root when the container has ended.
	Own []Mount

	Privileged bool          // asked for with sdk.FeaturePrivileged
	Hermetic   bool          // has no network, with sdk.FeatureNetworkNone
	Limits     sdk.Resources // those of Options.Features, with what Command itself needs; zero fields: unlimited

	Dir string // for the functions' own files; removed after Destroy
}

// Mount is a volume in a container, or something of the command's own.
type Mount struct {
	Source   string // the volume's directory
	Path     string // where the container sees it: absolute, and free of symbolic links
	Target   string // the same from outside: an empty directory below Root, or in a volume that is mounted before
	ReadOnly bool
}

// Options of a Worker. Dir must be set.
type Options struct {
	// Dir is where volumes and containers are kept: an absolute path. Made where missing, for root alone. Two plugins may use one at once.
	Dir string

	// Shim is the program slipway-shim for containers, an absolute path. Empty: slipway-shim beside the plugin's own program.
	Shim string

	// Root fills the empty directory from which containers without an image get copies. It is not called any more for a Dir where it
	// has succeeded; until then maybe by several callers at once, each with a directory of its own. Nil: [Busybox].
	Root func(ctx context.Context, dir string) error

	// Base is a directory, by its absolute path, of which containers without an image get copies in place of what Root makes. Empty: there is none.
	Base string

	// Features are those among sdk.FeaturePrivileged, FeatureNetworkNone, FeatureLimitsCPU, FeatureLimitsMemory, FeatureLimitsPIDs and FeatureLimitsDisk
	// that Create heeds. What needs another is refused. The machine names those that it has by itself.
	Features []sdk.Feature

	// Tried are further ones of these, which Create can heed on some machines only. They are named where a container that asks for all of
	// them can be made, which is tried once.
	Tried []sdk.Feature

	Log *slog.Logger // nil: that of the plugin, or nothing is logged
}

// Worker is an [sdk.Worker] on this machine.
type Worker struct {
	*volumedir.Store

	driver     *shim.Driver
	name       string
	f          Functions
	o          Options
	containers *shelf.Shelf[record]
	boot       string // id of this start of the machine

	mu     sync.Mutex
	making map[string]bool // attempts to make containers, by this process, which may run commands in them already
	ending map[string]bool // attempts whose outcome is being destroyed by this process

	probing  chan struct{} // holds a token while somebody probes
	features []sdk.Feature // found by a probe; nil: none has succeeded yet
}

// Open makes the worker of a name. It makes Dir and takes away what a killed plugin left half done there; it starts nothing. What is wrong
// with an option is Invalid with sdk.ReasonConfig. Whoever uses it gives it to [NewRuntime], and
// calls [Runtime.Close] in the end.
func Open(ctx context.Context, name string, f Functions, o Options) (*Worker, error) {
	if f.Create == nil || f.Exec == nil || f.Destroy == nil {
		return nil, sdk.NewInternal(nil, "worker %q: the plugin lacks one of Create, Exec and Destroy", name)
	}
	o, err := o.check(name)
	if err != nil {
		return nil, err
	}
	w := &Worker{
		name: name, f: f, o: o,
		making: make(map[string]bool), ending: make(map[string]bool), probing: make(chan struct{}, 1),
	}
	if err := w.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonConfig, Cause: err, Message: fmt.Sprintf("worker %q: directory %s: %v", name, o.Dir, err)}
	}
	w.driver = shim.New(w.exec, shim.Options{Program: shimPath, Scratch: scratchPath, Log: o.Log})
	return w, nil
}

// open opens what is on the disk.
func (w *Worker) open(ctx context.Context) (err error) {
	if err := os.MkdirAll(w.o.Dir, 0o700); err != nil {
		return err
	}
	if w.boot, err = bootID(); err != nil {
		return err
	}
	if w.containers, err = shelf.Open[record](filepath.Join(w.o.Dir, "containers")); err != nil {
		return err
	}
	w.Store, err = volumedir.Open(ctx, filepath.Join(w.o.Dir, "volumes"), volumedir.Options{
		Quiesce:    w.quiesce,
		Privileged: slices.Contains(w.o.Features, sdk.FeaturePrivileged),
	})
	return errors.Join(err, w.containers.Sweep(ctx))
}

// check fills in what is left out.
func (o Options) check(worker string) (Options, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Root == nil {
		o.Root = Busybox
	}
	if o.Shim == "" {
		self, err := os.Executable()
		if err != nil {
			return o, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: this program does not know its own place (%v): say where slipway-shim is", worker, err)
		}
		o.Shim = filepath.Join(filepath.Dir(self), "slipway-shim")
	}
	if !filepath.IsAbs(o.Dir) || !filepath.IsAbs(o.Shim) {
		return o, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: directory %q and shim %q must be absolute paths", worker, o.Dir, o.Shim)
	}
	if info, err := os.Stat(o.Shim); err != nil || !info.Mode().IsRegular() {
		return o, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: there is no program %s; build it of sdk/shim/cmd, with CGO_ENABLED=0", worker, o.Shim)
	}
	if o.Base != "" {
		if info, err := os.Stat(o.Base); !filepath.IsAbs(o.Base) || err != nil || !info.IsDir() {
			return o, sdk.NewInvalid(sdk.ReasonConfig, "worker %q: the root for containers without an image, %q, must be the absolute path of a directory", worker, o.Base)
		}
	}
	for _, feature := range slices.Concat(o.Features, o.Tried) {
		if !slices.ContainsFunc(wishes(), func(w wish) bool { return w.feature == feature && w.ask != nil }) {
			return o, sdk.NewInternal(nil, "worker %q: feature %q is not one that Create can heed", worker, feature)
		}
	}
	return o, nil
}

// mark marks an attempt until unmark is called. Attempts are told by more than the container's id, for the next one may begin as soon as the files
// of this one are gone, and before unmark.
func (w *Worker) mark(set map[string]bool, attempt string) (unmark func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	set[attempt] = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(set, attempt)
	}
}

func (w *Worker) marked(set map[string]bool, attempt string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return set[attempt]
}

// Close does nothing: all handles of a worker are the same, which the runtime closes.
func (w *Worker) Close() error { return nil }

var (
	_ sdk.Worker     = (*Worker)(nil)
	_ sdk.FileReader = (*Worker)(nil)
	_ sdk.Resizer    = (*Worker)(nil)
)
