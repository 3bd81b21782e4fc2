package nomad

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/sdk"
)

// cluster makes calls on a Nomad cluster: with tokens, bounded waits, few connections, and errors of the contract.
type cluster struct {
	c         Config
	client    *api.Client
	transport *http.Transport
	token     token
	pace      *pace
	host      string // HOST:PORT of the agent at the block's address
	socket    bool   // that is one on this machine
	// For commands in containers and in stores.
	containers, stores turns
	waits              turns // for blocking queries
}

func newCluster(c Config) (*cluster, error) {
	k := &cluster{c: c, token: token{fixed: c.Token, file: c.TokenFile}, pace: newPace(c.Rate)}
	k.containers.most, k.stores.most = c.commands()
	address := c.Address
	dial := (&net.Dialer{Timeout: time.Duration(c.RequestTimeout)}).DialContext
	if socket, ok := strings.CutPrefix(address, "unix://"); ok {
		address, k.socket = "http://127.0.0.1", true
		to := dial
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return to(ctx, "unix", socket) }
	}
	// What execs do not take. Blocking queries are two for each block, all else is short.
	others := max(4, c.MaxConnections-c.MaxConnections/2)
	k.waits.most = others / 2
	k.transport = &http.Transport{DialContext: dial, MaxConnsPerHost: others, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if u, err := url.Parse(address); err == nil {
		k.host = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"https": "443"}[u.Scheme], "80"))
	}
	files := &api.TLSConfig{CACert: c.CACert, ClientCert: c.ClientCert, ClientKey: c.ClientKey, TLSServerName: c.TLSServerName}
	if err := api.ConfigureTLS(&http.Client{Transport: k.transport}, files); err != nil {
		return nil, sdk.NewInvalid(sdk.ReasonConfig, "TLS of %s: %v", c.Address, err)
	}
	var err error
	k.client, err = api.NewClient(&api.Config{
		Address: address, Region: c.Region, Namespace: c.Namespace, HttpClient: &http.Client{Transport: asking{k.transport}}, TLSConfig: files,
	})
	if err != nil {
		return nil, sdk.NewInvalid(sdk.ReasonConfig, "address %q: %v", c.Address, err)
	}
	return k, nil
}

// String names the cluster.
func (k *cluster) String() string { return "nomad at " + k.c.Address }

func (k *cluster) close() { k.transport.CloseIdleConnections() }

// in bounds one call that does not block.
func (k *cluster) in(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(k.c.RequestTimeout))
}

func (k *cluster) query(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{AuthToken: k.token.get()}).WithContext(ctx)
}

func (k *cluster) write(ctx context.Context) *api.WriteOptions {
	return (&api.WriteOptions{AuthToken: k.token.get()}).WithContext(ctx)
}

// How long a blocking query waits at the server: the one for nodes, of which a block has one; and all others, of which there may be more than connections.
// Whoever asks must wait a little longer.
const (
	blocked = time.Minute
	brief   = 2 * time.Second
)

// following makes the query for nodes, which waits until something is newer than index; where that is zero, it is answered at once.
func (k *cluster) following(ctx context.Context, index uint64) (*api.QueryOptions, context.Context, context.CancelFunc) {
	return k.blocking(ctx, index, blocked)
}

// waiting makes another query of that kind, which is answered after a short time even if nothing is newer. It waits for its turn, so that some connections
// are always free for what is answered at once.
func (k *cluster) waiting(ctx context.Context, index uint64) (*api.QueryOptions, context.Context, context.CancelFunc) {
	over := func() {}
	if index > 0 {
		if turn, err := k.waits.take(ctx, "", nil); err == nil { // else the query fails of ctx as well
			over = turn
		}
	}
	q, ctx, cancel := k.blocking(ctx, index, brief)
	return q, ctx, sync.OnceFunc(func() { cancel(); over() })
}

func (k *cluster) blocking(ctx context.Context, index uint64, most time.Duration) (*api.QueryOptions, context.Context, context.CancelFunc) {
	limit := time.Duration(k.c.RequestTimeout)
	if index > 0 {
		limit += most + most/8 // Nomad adds a sixteenth
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	q := k.query(ctx)
	q.WaitIndex, q.WaitTime = index, most
	return q, ctx, cancel
}

// status gives the status of Nomad's answer; zero: none.
func status(err error) int {
	if e, ok := errors.AsType[api.UnexpectedResponseError](err); ok && e.HasStatusCode() {
		return e.StatusCode()
	}
	return 0
}

// said gives Nomad's own words.
func said(err error) string {
	if e, ok := errors.AsType[api.UnexpectedResponseError](err); ok && e.HasBody() {
		return strings.TrimSpace(e.Body())
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// fail makes an error of the contract of one of Nomad's client. What is for the caller to judge by its status he looks at before.
func (k *cluster) fail(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*sdk.Error](err); ok {
		return err
	}
	if ctx.Err() != nil { // the caller's own, not that of one question
		return ctx.Err()
	}
	if d, ok := errors.AsType[*denied](err); ok {
		return sdk.NewUnavailable(err, "%s: %s: %v", k, what, d)
	}
	switch code := status(err); {
	case code == http.StatusTooManyRequests:
		return sdk.NewUnavailable(err, "%s: %s: too many connections (%s); lower max_connections, or raise the agent's http_max_conns_per_client", k, what, said(err))
	case code == http.StatusBadRequest:
		return &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonSpec, Cause: err, Message: fmt.Sprintf("%s: %s: %s", k, what, said(err))}
	case code >= 400:
		return sdk.NewUnavailable(err, "%s: %s: it answered %d: %s", k, what, code, said(err))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return sdk.NewUnavailable(err, "%s: %s: no answer within %v", k, what, time.Duration(k.c.RequestTimeout))
	}
	return sdk.NewUnavailable(err, "%s: %s: %s", k, what, said(err))
}

// token is the ACL token, read again when its file changes.
type token struct {
	fixed, file string

	mu      sync.Mutex
	read    string
	changed time.Time
	size    int64
}

// get gives the token; where its file cannot be read, the last one that could.
func (t *token) get() string {
	if t.file == "" {
		return t.fixed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Stat(t.file)
	if err != nil || info.ModTime().Equal(t.changed) && info.Size() == t.size {
		return t.read
	}
	if text, err := os.ReadFile(t.file); err == nil {
		t.read, t.changed, t.size = strings.TrimSpace(string(text)), info.ModTime(), info.Size()
	}
	return t.read
}

// pace lets at most so many things begin in a second.
type pace struct {
	mu    sync.Mutex
	next  time.Time
	every time.Duration
	burst time.Duration
}

func newPace(aSecond int) *pace {
	return &pace{every: time.Second / time.Duration(aSecond), burst: time.Second / 2}
}

// wait waits for its turn, no longer than ctx.
func (p *pace) wait(ctx context.Context) error {
	p.mu.Lock()
	now := time.Now()
	if earliest := now.Add(-p.burst); p.next.Before(earliest) {
		p.next = earliest
	}
	p.next = p.next.Add(p.every)
	after := p.next.Sub(now)
	p.mu.Unlock()
	if after <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(after)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
