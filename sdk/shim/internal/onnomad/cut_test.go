//go:build linux

package onnomad

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// proxy stands between the plugin and an agent, and cuts connections.
type proxy struct {
	lis net.Listener
	own sync.WaitGroup

	mu    sync.Mutex
	to    string
	conns map[net.Conn]bool
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{lis: lis, conns: make(map[net.Conn]bool)}
	p.own.Go(p.accept)
	t.Cleanup(func() {
		lis.Close()
		p.cut()
		p.own.Wait()
	})
	return p
}

// lead says where it leads to; until then nobody gets through.
func (p *proxy) lead(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

func (p *proxy) accept() {
	for {
		near, err := p.lis.Accept()
		if err != nil {
			return
		}
		p.own.Go(func() { p.carry(near) })
	}
}

func (p *proxy) carry(near net.Conn) {
	defer near.Close()
	p.mu.Lock()
	to := p.to
	p.mu.Unlock()
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer far.Close()
	p.mu.Lock()
	p.conns[near], p.conns[far] = true, true
	p.mu.Unlock()
	var back sync.WaitGroup
	back.Go(func() {
		io.Copy(near, far)
		near.Close()
	})
	io.Copy(far, near)
	far.Close()
	back.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, near)
	delete(p.conns, far)
}

// cut closes all connections as the end of a machine does: without a word.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		c.Close()
	}
}

// feed gives noise until it is told to end.
type feed struct {
	r    *rand.ChaCha8
	sum  hash.Hash
	n    int64
	over atomic.Bool
}

func (f *feed) Read(p []byte) (int, error) {
	if f.over.Load() {
		return 0, io.EOF
	}
	p = p[:min(len(p), 8<<10)]
	f.r.Read(p)
	f.sum.Write(p)
	f.n += int64(len(p))
	return len(p), nil
}

// TestCuts cuts the relay of a process many times at random moments, by turns as the plugin gives up an exec and as a network does,
// while all its stdin comes back as output. Nothing is lost, doubled or run again.
func TestCuts(t *testing.T) {
	testkit.Soak(t, "cuts, kills and proofs on every driver")
	p := newProxy(t)
	// The client asks the node where it is, and goes there.
	a := startAgent(t, nomadtest.Options{Dev: true, HCL: fmt.Sprintf("advertise { http = %q }", p.lis.Addr())})
	p.lead(strings.TrimPrefix(a.Address(), "http://"))
	drivers(t, a, func(t *testing.T, driver string) {
		const cuts = 100
		c := settings(t, a, driver)
		c.Agent = "http://" + p.lis.Addr().String()
		b := newBox(t, c)
		spec := sh("exec cat")
		spec.Stdin = true
		id := b.start(spec)

		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		in := &feed{r: rand.NewChaCha8([32]byte{byte(seed)}), sum: sha256.New()}
		progress, done := make(chan int, 1), make(chan struct{}) // the exec that has brought something
		made := 0
		var cutter sync.WaitGroup
		cutter.Go(func() {
			defer in.over.Store(true)
			for last := 0; made < cuts; {
				var open int
				select {
				case open = <-progress:
				case <-done:
					return
				}
				if open <= last {
					continue // what it brought before it was cut; the next is not open yet, and a follow may give up there
				}
				last = open
				time.Sleep(time.Duration(r.IntN(20_000)) * time.Microsecond) // what it hits is the point
				if made++; made%2 == 0 {
					b.cut()
				} else {
					p.cut()
				}
			}
		})
		out, opened := sha256.New(), 0
		var next sdk.Position
		var exit *sdk.Exit
		ctx := testkit.Context(t)
		err := b.FollowProcess(ctx, b.id, id, 0, sdk.Follow{
			Stdin:  in,
			Opened: func(sdk.Opened) error { opened++; return nil },
			Output: func(records []sdk.Record) error {
				for _, rec := range records {
					if rec.Position != next || rec.IsGap() || exit != nil {
						return fmt.Errorf("a record at %d where %d comes next, gap %v, after the exit %v", rec.Position, next, rec.IsGap(), exit != nil)
					}
					next = rec.End()
					out.Write(rec.Data)
				}
				select {
				case progress <- b.execs():
				default:
				}
				return nil
			},
			Exit: func(e sdk.Exit) error { exit = &e; return nil },
		})
		close(done)
		cutter.Wait()
		if err != nil || opened != 1 || exit == nil || exit.Code != 0 || exit.OutputCut {
			t.Fatalf("after %d cuts and %d bytes: %v, opened %d times, exit %+v", made, next, err, opened, exit)
		}
		if int64(next) != in.n || string(out.Sum(nil)) != string(in.sum.Sum(nil)) {
			t.Errorf("%d bytes came of the %d that went in, the same: %v", next, in.n, string(out.Sum(nil)) == string(in.sum.Sum(nil)))
		}
		if made == 0 || b.execs() < made/2 {
			t.Errorf("%d cuts, but only %d execs", made, b.execs())
		}
		t.Logf("%d cuts, %d execs, %d bytes", made, b.execs(), next)
	})
}

// TestAgentKilled kills Nomad in the middle of an output. Where it is away the follow ends, as a host expects, and the next one goes on from
// where that was. Control groups of version 1 let no task of the other driver live on.
func TestAgentKilled(t *testing.T) {
	testkit.Soak(t, "cuts, kills and proofs on every driver")
	a := startAgent(t, nomadtest.Options{})
	b := newBox(t, settings(t, a, nomadtest.RawExec))
	ctx := testkit.Context(t)
	goOn, runs := filepath.Join(b.State, "go"), filepath.Join(b.State, "runs")
	id := b.start(sh(`echo run >>"$2"; i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); [ $i = 1000 ] && until [ -e "$1" ]; do sleep 0.02; done; done; exit 9`,
		"sh", goOn, runs))
	var r result
	f := r.follow()
	output, half := f.Output, make(chan struct{})
	var once sync.Once
	f.Output = func(records []sdk.Record) error {
		err := output(records)
		if strings.HasSuffix(r.stdout, "\n999\n") {
			once.Do(func() { close(half) })
		}
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- b.FollowProcess(ctx, b.id, id, 0, f) }()
	select {
	case <-half:
	case err := <-ended:
		t.Fatal(err)
	}
	before := b.execs()
	a.Kill()
	if err := <-ended; !errors.Is(err, sdk.Unavailable) {
		t.Fatalf("following while Nomad is away: %v", err)
	}
	if r.exit != nil {
		t.Fatalf("an exit comes from nowhere: %+v", r.exit)
	}
	b.check(os.WriteFile(goOn, nil, 0o600)) // it writes on while nobody is there
	b.check(a.Restart(ctx))
	b.check(b.FollowProcess(ctx, b.id, id, r.next, r.follow()))
	var want strings.Builder
	for i := range 3000 {
		fmt.Fprintln(&want, i)
	}
	if r.wrong || r.stdout != want.String() || r.exit == nil || r.exit.Code != 9 || r.exit.OutputCut {
		t.Errorf("%d bytes of %d, out of order %v, exit %+v", len(r.stdout), want.Len(), r.wrong, r.exit)
	}
	if text, err := os.ReadFile(runs); err != nil || string(text) != "run\n" {
		t.Errorf("it ran %q, %v", text, err)
	}
	if b.execs() == before {
		t.Error("no exec was begun anew")
	}
}
