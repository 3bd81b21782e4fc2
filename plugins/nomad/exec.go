package nomad

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/sdk"
)

// remember keeps where a container is.
func (n *node) remember(id sdk.ContainerID, a *api.Allocation) *placed {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.known[id]
	if p == nil {
		p = &placed{alloc: a}
		n.known[id] = p
	}
	return p
}

// where gives the allocation to run commands in.
func (n *node) where(ctx context.Context, id sdk.ContainerID) (*placed, error) {
	n.mu.Lock()
	p, ending := cmp.Or(n.known[id], n.eager[id]), n.ending[id]
	n.mu.Unlock()
	if ending {
		return nil, sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	if p != nil {
		return p, nil
	}
	c, err := n.lookup(ctx, id)
	switch {
	case sdk.ClassOf(err) == sdk.AlreadyExists: // another's
		return nil, sdk.NewNotFound(sdk.KindContainer, string(id))
	case err != nil:
		return nil, err
	}
	stub, again, err := n.allocation(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case again:
		n.stopAgain(ctx, id)
	case stub == nil && c.stopped:
		return nil, lost(id, "its job is stopped")
	case stub == nil:
		return nil, creating(id)
	}
	asking, cancel := n.cluster.in(ctx)
	defer cancel()
	a, _, err := n.cluster.client.Allocations().Info(stub.ID, n.cluster.query(asking))
	switch {
	case err == nil && again:
		return nil, lost(id, placedAgain+"; "+ended(a))
	case again:
		return nil, lost(id, placedAgain)
	case missing(err):
		return nil, lost(id, "Nomad has cleared it away")
	case err != nil:
		return nil, n.cluster.fail(ctx, "looking for container "+string(id), err)
	case c.stopped:
		return nil, lost(id, "its job is stopped; "+ended(a))
	case over(stub):
		return nil, lost(id, ended(a))
	case a.PreviousAllocation != "":
		n.stopAgain(ctx, id)
		return nil, lost(id, placedAgain)
	case stub.ClientStatus == api.AllocClientStatusUnknown:
		return nil, n.cutOff(id)
	case stub.ClientStatus == api.AllocClientStatusPending: // its keeper may have answered all the same, to a plugin that is no more
		return &placed{alloc: a}, nil
	}
	return n.remember(id, a), nil
}

// lost tells why nothing can be read of a container's processes any more.
func lost(id sdk.ContainerID, why string) error {
	return sdk.NewFailedPrecondition(sdk.ReasonRecordLost, sdk.KindContainer, string(id),
		"container %q: its allocation has ended, and nothing can be read of its processes: %s; destroy it", id, why)
}

// ended tells in Nomad's words how an allocation ended.
func ended(a *api.Allocation) string { return "it is " + a.ClientStatus + ": " + events(a) }

// exec is all that the shim's driver asks of a runtime.
func (n *node) exec(ctx context.Context, id sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	p, err := n.where(ctx, id)
	if err != nil {
		return err
	}
	by, code, err := n.cluster.exec(ctx, p.alloc, taskName, argv, stdin, stdout, stderr)
	if by != "" {
		n.detour.Store(by == n.cluster.host || n.cluster.socket)
	}
	if err == nil {
		err = n.notRun(id, code)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	// Nomad's errors do not tell these apart.
	ask, cancel := n.cluster.in(ctx)
	defer cancel()
	c, lookErr := n.lookup(ask, id)
	n.mu.Lock()
	ending, answered := n.ending[id], n.known[id] != nil
	n.mu.Unlock()
	if ending || sdk.IsNotFound(lookErr, sdk.KindContainer) {
		return sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	now, _, infoErr := n.cluster.client.Allocations().Info(p.alloc.ID, n.cluster.query(ask))
	switch {
	case infoErr == nil && now.ClientTerminalStatus():
		return lost(id, ended(now))
	case infoErr == nil && now.ClientStatus == api.AllocClientStatusPending && !answered && by != "": // not what is whole and cut off
		return creating(id)
	case lookErr == nil && c.stopped:
		return lost(id, "its job is stopped")
	case missing(infoErr):
		return lost(id, "Nomad has cleared it away")
	}
	// What was given up may be called running or pending for a while yet: its node tells of it late, or once more when it is back.
	if _, again, listErr := n.allocation(ask, id); listErr == nil && again {
		n.stopAgain(ctx, id)
		return lost(id, placedAgain)
	}
	return err
}

// handshake bounds the opening of a command's connection.
const handshake = 30 * time.Second

// notRun is the error of a command that docker has not run, if it seems so by its status: its own words are then where those of the command would be. So it is
// while a container ends, before Nomad tells of that. One that lives on and takes no command for long has lost its program: that is not for us to hide.
func (n *node) notRun(id sdk.ContainerID, status int) error {
	const cannotRun, noProgram, patience = 126, 127, time.Minute
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pool.c.Driver != "docker" || status != cannotRun && status != noProgram {
		delete(n.idle, id)
		return nil
	}
	since, again := n.idle[id]
	if !again {
		since = time.Now()
		n.idle[id] = since
	}
	if time.Since(since) > patience {
		return nil
	}
	return sdk.NewUnavailable(nil, "container %q: docker runs no command in it now, and gives it the status %d", id, status)
}

// exec runs a command in an allocation. Its exit status says little: see notRun. What Nomad does with a command whose ctx ended is not known. By is the address
// that was dialled for it; empty: none answered.
func (k *cluster) exec(ctx context.Context, a *api.Allocation, task string, argv []string, stdin io.Reader, stdout, stderr io.Writer) (by string, status int, err error) {
	// Of its own, for a websocket is taken out of a transport's hands; the time is its handshake's.
	tr := k.transport.Clone()
	tr.MaxConnsPerHost, tr.DisableKeepAlives = 0, true // or the question where the node is would keep a second one as long as the command runs
	defer tr.CloseIdleConnections()
	dial := tr.DialContext
	var mu sync.Mutex
	tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) { // the last one is the command's
		c, err := dial(ctx, network, address)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			by = address
		}
		return c, err
	}
	client, err := api.NewClient(&api.Config{
		Address: k.client.Address(), Region: k.c.Region, Namespace: k.c.Namespace, HttpClient: &http.Client{Transport: tr, Timeout: handshake},
		TLSConfig: &api.TLSConfig{CACert: k.c.CACert, ClientCert: k.c.ClientCert, ClientKey: k.c.ClientKey, TLSServerName: k.c.TLSServerName},
	})
	if err != nil {
		return "", 0, err
	}
	in, out, errs := &held{r: stdin}, &gate{to: stdout}, &gate{to: stderr}
	defer in.release()
	defer out.shut()
	defer errs.shut()
	code, err := client.Allocations().Exec(ctx, a, task, false, argv, in, out, errs, nil, k.query(ctx))
	if err == nil && code < 0 {
		err = errors.New("the agent does not know what became of the command")
	}
	mu.Lock() // the library may be dialling still
	defer mu.Unlock()
	return by, code, err
}

// gate keeps the library from a stream after the call: it does not await its own goroutines.
type gate struct {
	mu     sync.Mutex
	to     io.Writer
	closed bool
}

var errShut = errors.New("the command is over")

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return 0, errShut
	}
	return g.to.Write(p)
}

// shut waits for a Write that is under way.
func (g *gate) shut() {
	if f, ok := g.to.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = f.SetWriteDeadline(past)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// held is a stdin that can be taken away from the library, which reads on after the end of a command.
type held struct {
	r io.Reader

	mu   sync.Mutex // held while it is read
	done bool
}

var past = time.Unix(1, 0)

func (h *held) Read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done {
		return 0, errShut
	}
	return h.r.Read(p)
}

// release returns once no Read is under way, and none comes any more.
func (h *held) release() {
	if f, ok := h.r.(interface{ SetReadDeadline(time.Time) error }); ok {
		_ = f.SetReadDeadline(past)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = true
}
