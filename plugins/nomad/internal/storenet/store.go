package storenet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// WorkerName is the name of the one worker that a store is.
const WorkerName = "store"

// Options of a Store.
type Options struct {
	Node    string // whose volumes they are, for errors
	Exec    Exec   // in the store's task
	Program string // slipway-store, there
	Run     string // its run directory, there; empty: what the task's environment says
	// Direct says that the store is reached at its addresses only. Else a command in its task carries what no address does.
	Direct bool
	Log    *slog.Logger // nil: nothing is logged
}

// Store is a node's store of volumes. It is dialled when it is needed, again after a loss, and asked again who it is when it was
// started again. Its methods may be called from many goroutines at once; where it cannot be reached they are Unavailable and name it.
type Store struct {
	o      Options
	client *rpc.Client
	worker interface {
		sdk.Worker
		sdk.FileReader
		sdk.PeerStreamer
	}
	life context.Context // ends with Close
	end  context.CancelFunc
	own  sync.WaitGroup // commands and dials

	asking chan struct{} // holds a token while somebody asks who the store is

	mu     sync.Mutex
	closed bool
	hello  Hello     // empty: not known
	trust  int       // counts what hello has been
	detour time.Time // until then no address is tried
	failed error     // why the store was not reached; nil: it was
}

// detourTime is how long the way through a command is taken at once where no address led to the store.
const detourTime = time.Minute

// New makes a Store. It dials nothing.
func New(o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{o: o, asking: make(chan struct{}, 1)}
	s.life, s.end = context.WithCancel(context.Background())
	client, err := rpc.Dial(s.life, address("store of node "+o.Node), rpc.DialOptions{Dialer: func(ctx context.Context) (net.Conn, error) {
		return s.dial(ctx, KindWorker)
	}})
	if err != nil {
		return nil, err
	}
	s.client = client
	w, err := client.Runtime().Worker(WorkerName)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	s.worker = w.(interface {
		sdk.Worker
		sdk.FileReader
		sdk.PeerStreamer
	})
	return s, nil
}

// Close ends all connections and what runs on them, and waits for it.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	err := s.client.Close()
	s.own.Wait()
	return err
}

// enter counts somebody who uses the store, until leave.
func (s *Store) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.own.Add(1)
	return true
}

// dial connects with the store, which may have been started again since it was last asked who it is.
func (s *Store) dial(ctx context.Context, kind Kind) (net.Conn, error) {
	if !s.enter() {
		return nil, net.ErrClosed
	}
	defer s.own.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()

	c, err := s.connect(ctx, kind)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || kind == KindWorker || ctx.Err() == nil { // else it was the caller who gave up
		s.failed = err
	}
	if err == nil && s.closed {
		c.Close()
		return nil, net.ErrClosed
	}
	return c, err
}

func (s *Store) connect(ctx context.Context, kind Kind) (net.Conn, error) {
	h, fresh, err := s.who(ctx, 0)
	if err != nil {
		return nil, err
	}
	c, err := s.reach(ctx, h, kind)
	if err == nil || fresh || ctx.Err() != nil {
		return c, err
	}
	s.mu.Lock()
	known := s.trust
	s.mu.Unlock()
	again, _, askErr := s.who(ctx, known)
	if askErr != nil {
		return nil, fmt.Errorf("%w; and it does not say again who it is: %w", err, askErr)
	}
	return s.reach(ctx, again, kind)
}

// who gives the store's Hello: one that was got after the known-th, for zero any.
func (s *Store) who(ctx context.Context, known int) (h Hello, fresh bool, err error) {
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return Hello{}, false, ctx.Err()
	}
	s.mu.Lock()
	h, trust := s.hello, s.trust
	s.mu.Unlock()
	if trust > known {
		return h, false, nil
	}
	h, err = s.ask(ctx)
	if err != nil {
		return Hello{}, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.Fingerprint != s.hello.Fingerprint {
		s.detour = time.Time{}
	}
	s.hello = h
	s.trust++
	return h, true, nil
}

// argv is a command of the program in the store's task.
func (s *Store) argv(verb string) []string {
	if s.o.Run == "" {
		return []string{s.o.Program, verb}
	}
	return []string{s.o.Program, verb, "--run", s.o.Run}
}

// maxHello bounds what a store says of itself.
const maxHello = 64 << 10

// ask runs the program in the store's task.
func (s *Store) ask(ctx context.Context) (Hello, error) {
	c, err := start(&s.own, s.o.Exec, s.argv("hello")...)
	if err != nil {
		return Hello{}, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	c.in.Close() // Nomad does not let go of a command before its stdin has ended
	text, err := io.ReadAll(io.LimitReader(c, maxHello))
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return Hello{}, err
	}
	if strings.TrimSpace(string(text)) == "" {
		return Hello{}, errors.New("slipway-store hello, run in the store's task, said nothing")
	}
	return ReadHello(text)
}

// reach connects by the best way that there is.
func (s *Store) reach(ctx context.Context, h Hello, kind Kind) (net.Conn, error) {
	as := Introduction{Kind: kind, Secret: h.Secret}
	s.mu.Lock()
	direct := s.o.Direct || time.Now().After(s.detour)
	s.mu.Unlock()
	if direct {
		c, err := Connect(ctx, h.Addresses, h.Fingerprint, as)
		if _, far := errors.AsType[*Unreachable](err); !far || s.o.Direct {
			return c, err
		}
		s.o.Log.Warn("no address leads to a store of volumes, so all goes through commands in its task, slowly", "node", s.o.Node, "error", err)
		s.mu.Lock()
		s.detour = time.Now().Add(detourTime)
		s.mu.Unlock()
	}
	raw, err := startTunnel(&s.own, s.o.Exec, s.argv("tunnel")...)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	c, err := handshake(within, raw, h.Fingerprint)
	if err != nil {
		return nil, err
	}
	if err := introduce(within, c, as); err != nil {
		return nil, err
	}
	return c, nil
}

// settle makes an error of the store's that of a server behind the plugin: whoever went away, it was not the plugin.
func (s *Store) settle(err error) error {
	if !errors.Is(err, sdk.ReasonPluginGone) {
		return err
	}
	s.mu.Lock()
	why, where := s.failed, joined(s.hello.Addresses)
	s.mu.Unlock()
	return s.away(why, where)
}

func (s *Store) away(why error, where string) error {
	if where != "" {
		where = " at " + where
	}
	if why == nil {
		return sdk.NewUnavailable(nil, "the store of node %s%s went away under the call", s.o.Node, where)
	}
	return sdk.NewUnavailable(classless(why), "the store of node %s%s cannot be reached: %v", s.o.Node, where, why)
}

// classless gives an error that can be a cause: one of the contract would have a class of its own.
func classless(err error) error {
	if _, ours := errors.AsType[*sdk.Error](err); ours {
		return nil
	}
	return err
}

func joined(addresses []string) string { return strings.Join(addresses, ", ") }
