//go:build linux

package gardentest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

const (
	askLimit   = 20 * time.Second // for a server to end by itself; then it is killed
	cleanLimit = 20 * time.Second // at least, for a clean-up, also where a test has waited to its end
	portTries  = 5                // a port may be lost to another between choosing and binding it
)

// cleaning is for what is done when the test's own context has ended.
func cleaning(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), max(testkit.Bound(t), cleanLimit))
}

// Options are what servers may have otherwise. The zero value is usable.
type Options struct {
	// Driver is Baggageclaim's: "overlay" or "naive"; empty: overlay where it works, else naive.
	Driver string

	Unix bool // Garden serves on a unix socket instead of a port

	// NoUserNamespaces: containers have no user namespaces, and volumes no mapped owners. Otherwise root of an unprivileged container, and of
	// what is in an unprivileged volume, is 4294967294 outside.
	NoUserNamespaces bool

	StrictMounts  bool // Garden refuses containers whose root lacks a mount point, as guardian does
	MaxContainers int  // Garden refuses to make more; 0: no limit
	LikeGuardian  bool // Garden has forgotten its containers' properties, and does not list them any more, after it was killed
	LikeConcourse bool // Garden answers as Concourse's containerd backend does where that differs from guardian
	NoLimits      bool // Garden ignores the limits of containers, silently

	// Guardian is Garden, on a unix socket, with a network of its own. It takes MaxContainers and Driver, and no other option.
	Guardian bool

	// Concourse is Garden, with what is said of Guardian: the containerd backend of a Concourse worker, and a containerd, which ends with it.
	Concourse bool
}

// Servers are a Garden server and a Baggageclaim beside it, made by Start. Methods that start and end a server are for one goroutine at a time,
// the others for many.
type Servers struct {
	Garden       string // "tcp://127.0.0.1:PORT" or "unix:///PATH"
	Baggageclaim string // "http://127.0.0.1:PORT"
	Driver       string // which Baggageclaim has
	Dir          string // where all of their state is; it goes with the test

	options  Options
	programs programs
	lock     *os.File
	ports    ports
	guardian *guardian // once it was started
	holder   *process  // of the namespaces, once they were made

	mu                   sync.Mutex
	garden, baggage      *process // the last ones started
	gardenAPI, volumeAPI *api
}

// ports are all on 127.0.0.1.
type ports struct{ garden, baggage, debug int }

// Start starts both servers, waits until they answer, and clears them away when the test ends: containers, processes, mounts and files. It skips the
// test without root, runc, or the programs. What a test binary that was killed had left is cleared away first.
func Start(t testing.TB, o Options) *Servers {
	t.Helper()
	p := find(t, o)
	o.Unix = o.Unix || o.Guardian || o.Concourse
	ctx := testkit.Context(t)
	sweep(ctx, t)
	s, err := open(p, o)
	if err != nil {
		t.Fatalf("gardentest: %v", err)
	}
	t.Cleanup(func() { s.cleanUp(t) })
	if err := s.first(ctx); err != nil {
		t.Fatalf("gardentest: %v", err)
	}
	return s
}

// open makes the directory of the servers.
func open(p programs, o Options) (*Servers, error) {
	dir, lock, err := makeDir()
	if err != nil {
		return nil, err
	}
	s := &Servers{Dir: dir, options: o, programs: p, lock: lock}
	if err := os.Mkdir(s.VolumesDir(), 0o755); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir), lock.Close())
	}
	s.Driver = cmp.Or(o.Driver, bestDriver(dir))
	return s, nil
}

// VolumesDir is where Baggageclaim keeps volumes: below it, live/HANDLE/volume is what it tells as a volume's path.
func (s *Servers) VolumesDir() string { return filepath.Join(s.Dir, "volumes") }

// first starts both for the first time. One that ends before it is ready is started again on other ports, but only if one of its own was taken.
func (s *Servers) first(ctx context.Context) error {
	for try := 1; ; try++ {
		if err := s.choose(); err != nil {
			return err
		}
		err := s.startGarden(ctx)
		if err == nil {
			err = s.startBaggageclaim(ctx)
		}
		if err == nil || !errors.Is(err, errEnded) || try == portTries {
			return err
		}
		s.KillGarden()
		s.KillBaggageclaim()
		if portsFree(s.ports.garden, s.ports.baggage, s.ports.debug) {
			return err
		}
	}
}

// choose takes ports that nobody listens on.
func (s *Servers) choose() error {
	chosen, err := freePorts()
	if err != nil {
		return err
	}
	s.ports = ports{garden: chosen[0], baggage: chosen[1], debug: chosen[2]}
	network, address := "tcp", local(s.ports.garden)
	if s.options.Unix {
		network, address = "unix", filepath.Join(s.Dir, "garden.sock")
	}
	s.Garden = network + "://" + address
	s.Baggageclaim = "http://" + local(s.ports.baggage)
	s.gardenAPI = newAPI(network, address)
	s.volumeAPI = newAPI("tcp", local(s.ports.baggage))
	return nil
}

func (s *Servers) startGarden(ctx context.Context) error {
	p, err := s.startGardenProcess(ctx)
	if err != nil {
		return err
	}
	s.set(&s.garden, p)
	if err := p.await(ctx, s.gardenAPI.ping); err != nil {
		return fmt.Errorf("garden: %w", err)
	}
	return nil
}

func (s *Servers) startGardenProcess(ctx context.Context) (*process, error) {
	if s.options.Guardian {
		return s.startGuardian(ctx)
	}
	if s.options.Concourse {
		return s.startConcourse(ctx)
	}
	listen := local(s.ports.garden)
	if s.options.Unix {
		listen = filepath.Join(s.Dir, "garden.sock")
	}
	args := []string{"-listen", listen, "-state", filepath.Join(s.Dir, "garden"), "-max-containers", strconv.Itoa(s.options.MaxContainers)}
	for flag, wanted := range map[string]bool{
		"-no-userns": s.options.NoUserNamespaces, "-strict-mounts": s.options.StrictMounts, "-no-limits": s.options.NoLimits,
		"-like-concourse": s.options.LikeConcourse, "-like-guardian": s.options.LikeGuardian,
	} {
		if wanted {
			args = append(args, flag)
		}
	}
	return start(s.Dir, s.programs.garden, args...)
}

func (s *Servers) startBaggageclaim(ctx context.Context) error {
	args := []string{
		"--bind-port", strconv.Itoa(s.ports.baggage), "--debug-bind-port", strconv.Itoa(s.ports.debug), "--p2p-interface-name-pattern", "^lo$",
		"--driver", s.Driver, "--volumes", s.VolumesDir(), "--overlays-dir", filepath.Join(s.Dir, "overlays"),
	}
	if s.options.NoUserNamespaces {
		args = append(args, "--disable-user-namespaces")
	}
	p, err := start(s.Dir, s.programs.baggageclaim, args...)
	if err != nil {
		return err
	}
	s.set(&s.baggage, p)
	if err := p.await(ctx, func(ctx context.Context) error { _, err := s.volumeAPI.volumes(ctx); return err }); err != nil {
		return fmt.Errorf("baggageclaim: %w", err)
	}
	return nil
}

func (s *Servers) set(where **process, p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*where = p
}

func (s *Servers) get(where **process) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *where
}
