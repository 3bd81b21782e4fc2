//go:build linux

package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
	"github.com/slipway-run/slipway/sdk/shelf"
	"github.com/slipway-run/slipway/sdk/volumedir"
	"github.com/slipway-run/slipway/sdk/volumetar"
)

// Options of a store.
type Options struct {
	Dir       string   // volumes are below it
	Listen    string   // HOST:PORT
	Advertise []string // HOST:PORT each, where others reach it; none: the machine's own addresses
	Zone      string   // see sdk.Status
	Run       string   // private directory, for who may talk to the store
	Version   string   // of this program
	Log       *slog.Logger

	patience time.Duration // with strangers; zero: strangerTime
}

// volumesDir is where volumes are below the directory: what else an operator keeps there is never touched.
const volumesDir = "volumes"

// Bounds of those who have not shown a secret yet.
const (
	maxStrangers = 64 // the oldest is put out for one more
	strangerTime = 15 * time.Second
)

// server is a store.
type server struct {
	o       Options
	volumes *volumedir.Store
	hello   storenet.Hello
	door    *storenet.Server
	workers *queue // connections of KindWorker
	tickets sdk.Tickets[ticket]
	own     sync.WaitGroup // connections

	mu        sync.Mutex
	strangers []net.Conn // oldest first

	looking sync.Mutex
	found   []sdk.Feature // nil: not all are known; with looking held
	full    bool          // that was said; with looking held
}

// Serve keeps volumes until ctx ends, which is no error. Once it can be talked to it writes the file that "hello" prints.
func Serve(ctx context.Context, o Options) error {
	s := &server{o: o}
	var err error
	if s.volumes, err = openVolumes(ctx, o); err != nil {
		return err
	}
	if _, err := s.features(); err != nil {
		return err
	}
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return err
	}
	defer lis.Close()
	if err := s.introduce(lis); err != nil {
		return err
	}
	o.Log.Info("keeping volumes", "dir", o.Dir, "at", lis.Addr().String(), "known as", s.hello.Addresses, "zone", o.Zone)
	return s.serve(ctx, lis)
}

// features gives what the store can do. What archives keep is found out by writing, and while the disk is full it is not known: a store without these features serves
// all the same, for only what it destroys makes room there.
func (s *server) features() ([]sdk.Feature, error) {
	s.looking.Lock()
	defer s.looking.Unlock()
	if s.found != nil {
		return s.found, nil
	}
	found, err := s.volumes.Features()
	full := errors.Is(err, sdk.ReasonStorage) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
	if err != nil && !full {
		return nil, err
	}
	if full {
		found = []sdk.Feature{sdk.FeatureFileRead}
	}
	if s.o.Zone != "" {
		found = append(found, sdk.FeaturePeerStream)
	}
	if !full {
		s.found = found
	} else if !s.full {
		s.full = true
		s.o.Log.Warn("what archives keep is not known while there is no room", "dir", s.o.Dir, "error", err)
	}
	return found, nil
}

func openVolumes(ctx context.Context, o Options) (*volumedir.Store, error) {
	s, err := volumedir.Open(ctx, filepath.Join(o.Dir, volumesDir), volumedir.Options{
		Quiesce: quiesce, Privileged: true, Archives: volumetar.Options{DropOwners: os.Geteuid() != 0},
	})
	if s == nil {
		return nil, fmt.Errorf("no volumes can be kept in %s: %w", o.Dir, err)
	}
	if err != nil {
		o.Log.Warn("what an earlier store has left could not be taken away", "error", err)
	}
	return s, nil
}

// introduce makes what others must know to talk to this process, and tells it to those who may read the file.
func (s *server) introduce(lis net.Listener) error {
	cert, fingerprint, err := storenet.NewIdentity()
	if err != nil {
		return err
	}
	s.door = storenet.NewServer(cert)
	local, all, err := addresses(lis.Addr(), s.o.Advertise)
	if err != nil {
		return err
	}
	s.hello = storenet.Hello{Protocol: storenet.Protocol, Version: s.o.Version, Addresses: all, Local: local, Fingerprint: fingerprint,
		Secret: storenet.NewSecret(), Incarnation: s.volumes.Incarnation()}
	text, err := json.Marshal(s.hello)
	if err != nil {
		return err
	}
	return shelf.WriteFile(filepath.Join(s.o.Run, storenet.HelloFile), append(text, '\n'))
}

// addresses tells where a listener is reached from its own machine, and from others.
func addresses(on net.Addr, advertise []string) (local string, all []string, err error) {
	host, port, err := net.SplitHostPort(on.String())
	if err != nil {
		return "", nil, err
	}
	ip := net.ParseIP(host)
	everywhere := ip == nil || ip.IsUnspecified()
	if local = on.String(); everywhere {
		local = net.JoinHostPort("127.0.0.1", port)
	}
	switch {
	case len(advertise) > 0:
		return local, advertise, nil
	case !everywhere:
		return local, []string{local}, nil
	}
	ifs, err := net.InterfaceAddrs()
	if err != nil {
		return "", nil, err
	}
	for _, a := range ifs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			all = append(all, net.JoinHostPort(n.IP.String(), port))
		}
	}
	if len(all) == 0 {
		all = []string{local}
	}
	return local, all, nil
}

// serve lets people in until ctx ends.
func (s *server) serve(ctx context.Context, lis net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	s.workers = newQueue(lis.Addr())
	served := make(chan error, 1)
	go func() {
		served <- rpc.ServeOn(ctx, s.workers, sdk.PluginInfo{Name: "slipway-store", Version: s.o.Version, SDK: sdk.Version}, runtime{s}, rpc.ServeOptions{Log: s.o.Log})
	}()
	stop := context.AfterFunc(ctx, func() { lis.Close() })
	defer stop()
	err := s.accept(ctx, lis)
	cancel()
	err = errors.Join(err, <-served)
	s.own.Wait()
	return err
}

// accept never gives up while there is hope: a machine may run out of descriptors for a while.
func (s *server) accept(ctx context.Context, lis net.Listener) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	<-pause.C
	for {
		c, err := lis.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			s.o.Log.Warn("nobody can come in for a moment", "error", err)
			pause.Reset(100 * time.Millisecond)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
			continue
		}
		storenet.Watch(c)
		s.stranger(c)
		s.own.Go(func() { s.meet(ctx, c) })
	}
}

// stranger counts a connection that has shown nothing yet. Those who take their time hold up nobody else: the oldest has to go.
func (s *server) stranger(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.strangers) >= maxStrangers {
		s.strangers[0].Close()
		s.strangers = s.strangers[1:]
	}
	s.strangers = append(s.strangers, c)
}

// known ends what stranger began.
func (s *server) known(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strangers = slices.DeleteFunc(s.strangers, func(other net.Conn) bool { return other == c })
}

// meet owns a connection until somebody else does.
func (s *server) meet(ctx context.Context, raw net.Conn) {
	_ = raw.SetDeadline(time.Now().Add(cmp.Or(s.o.patience, strangerTime)))
	hang := context.AfterFunc(ctx, func() { raw.Close() })
	c, as, err := s.door.Meet(ctx, raw)
	s.known(raw)
	if !hang() || err != nil {
		raw.Close()
		return
	}
	if err := s.admit(ctx, c, as); err != nil {
		s.o.Log.Debug("somebody was not let in", "from", raw.RemoteAddr().String(), "error", err)
		c.Close()
	}
}

// admit gives the connection to whom it is for. After an error it is the caller's.
func (s *server) admit(ctx context.Context, c *tls.Conn, as storenet.Introduction) error {
	var given ticket
	why := error(&sdk.Error{Class: sdk.Unavailable, Reason: storenet.ReasonSecret, Message: "the store does not know that secret: it was started again since"})
	switch {
	case as.Kind == storenet.KindPeer:
		given, why = s.tickets.Redeem(string(as.Secret))
	case !s.hello.Secret.Is(as.Secret):
	case as.Kind == storenet.KindWorker, as.Kind == storenet.KindSession:
		why = nil
	default:
		why = sdk.NewUnavailable(nil, "the store knows no connections of kind %q", as.Kind)
	}
	if why != nil {
		return errors.Join(why, storenet.Refuse(c, why))
	}
	if err := storenet.Welcome(c); err != nil {
		return err
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return err
	}
	switch as.Kind {
	case storenet.KindPeer:
		s.receive(ctx, c, given)
	case storenet.KindSession:
		s.session(ctx, c)
	default:
		s.workers.add(c)
	}
	return nil
}
