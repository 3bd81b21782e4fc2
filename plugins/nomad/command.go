package nomad

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/hashicorp/nomad/api"
)

// A command's connection is made and kept here rather than by Nomad's client: that one verifies the certificate of a node by its address, which Nomad's
// certificates do not name, does not tell which agent it has reached, and leaves goroutines behind that use the caller's streams.
const (
	handshake    = 30 * time.Second // for the opening of a connection
	nodeDial     = time.Second      // for that of a node's agent, which may be where the plugin cannot go
	commandBeats = 10 * time.Second // between two messages that say that we are there
	stdinBytes   = 16 << 10         // of a message to the command
	frameBytes   = 1 << 20          // of a message from it, which has 4 KiB of output at most
)

// agent is where a node's own agent serves its API, as it says itself. The zero value is one that is not known.
type agent struct {
	address string // HOST:PORT
	tls     bool
}

// way is how a command got to its node.
type way int

const (
	unreached  way = iota // no agent took the connection
	direct                // by the node's own agent
	byTheBlock            // by the agent at the block's address, which passes it on
)

// exec runs a command in a task of an allocation on the node whose agent is given, and copies its streams, until the command or ctx ends. It uses no stream
// afterwards. The exit status says little: see notRun. What Nomad does with a command whose ctx ended is not known.
func (k *cluster) exec(ctx context.Context, node agent, a *api.Allocation, task string, argv []string, stdin io.Reader, stdout, stderr io.Writer) (way, int, error) {
	conn, by, err := k.connect(ctx, node, a, task, argv)
	if err != nil {
		return by, 0, cmp.Or(ctx.Err(), err)
	}
	c := &command{conn: conn, over: make(chan struct{})}
	var own sync.WaitGroup
	own.Go(func() { c.send(stdin) })
	own.Go(c.beat)
	own.Go(func() {
		select {
		case <-c.over:
			interrupt(stdin)
		case <-ctx.Done():
			interrupt(stdin, stdout, stderr)
		}
		conn.Close()
	})
	code, err := c.receive(stdout, stderr)
	close(c.over)
	own.Wait()
	switch {
	case err != nil:
		return by, 0, cmp.Or(ctx.Err(), err)
	case code < 0:
		return by, 0, errors.New("the agent does not know what became of the command")
	}
	return by, code, nil
}

// connect opens the connection of a command: to the node's own agent, and where that does not work to the one at the block's address.
func (k *cluster) connect(ctx context.Context, node agent, a *api.Allocation, task string, argv []string) (*websocket.Conn, way, error) {
	words, err := json.Marshal(argv)
	if err != nil {
		return nil, unreached, err
	}
	query := url.Values{"command": {string(words)}, "task": {task}, "tty": {"false"}}
	for key, value := range map[string]string{"namespace": k.c.Namespace, "region": k.c.Region} {
		if value != "" {
			query.Set(key, value)
		}
	}
	block, err := url.Parse(k.client.Address())
	if err != nil {
		return nil, unreached, err
	}
	to := url.URL{Scheme: strings.Replace(block.Scheme, "http", "ws", 1), Path: "/v1/client/allocation/" + a.ID + "/exec", RawQuery: query.Encode()}
	auth := http.Header{}
	if token := k.token.get(); token != "" {
		auth.Set("X-Nomad-Token", token)
	}
	if node.address != "" && node.address != k.host && (k.socket || node.tls == (block.Scheme == "https")) { // a token is not for all to read
		u := to
		if u.Host = node.address; node.tls {
			u.Scheme = "wss"
		}
		trust := k.transport.TLSClientConfig.Clone()
		trust.ServerName = nodeName(k.c.Region, a)
		conn, _, err := k.upgrade(ctx, websocket.Dialer{NetDialContext: (&net.Dialer{Timeout: nodeDial}).DialContext, TLSClientConfig: trust}, u, auth)
		if err == nil {
			return conn, direct, nil
		}
	}
	to.Host = block.Host
	if block.User != nil {
		password, _ := block.User.Password()
		basic := http.Request{Header: auth}
		basic.SetBasicAuth(block.User.Username(), password)
	}
	conn, reached, err := k.upgrade(ctx, websocket.Dialer{NetDialContext: k.transport.DialContext, TLSClientConfig: k.transport.TLSClientConfig}, to, auth)
	if !reached {
		return nil, unreached, err
	}
	return conn, byTheBlock, err
}

// nodeName is what the certificate of a node's agent is for.
func nodeName(region string, a *api.Allocation) string {
	if region == "" && a.Job != nil && a.Job.Region != nil {
		region = *a.Job.Region
	}
	return "client." + cmp.Or(region, api.GlobalRegion) + ".nomad"
}

// upgrade dials and asks for a websocket; reached tells whether somebody took the connection.
func (k *cluster) upgrade(ctx context.Context, d websocket.Dialer, to url.URL, header http.Header) (conn *websocket.Conn, reached bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	dial := d.NetDialContext
	stop := func() bool { return true }
	d.NetDialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err == nil {
			reached = true
			stop = context.AfterFunc(ctx, func() { c.Close() }) // the library looks at ctx no more
		}
		return c, err
	}
	conn, answer, err := d.DialContext(ctx, to.String(), header)
	if !stop() && err == nil {
		conn.Close()
		return nil, reached, ctx.Err()
	}
	if err != nil && answer != nil {
		text, _ := io.ReadAll(answer.Body) // what the library has kept of it
		err = fmt.Errorf("%s answered %s: %s", to.Host, answer.Status, strings.TrimSpace(string(text)))
	}
	return conn, reached, err
}

// command is the conversation with one that runs.
type command struct {
	conn *websocket.Conn
	over chan struct{} // closed when nothing is to be sent any more

	mu sync.Mutex // for sending
}

func (c *command) write(m api.ExecStreamingInput) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn.WriteJSON(m)
}

// send passes stdin on until it ends, or the connection does.
func (c *command) send(stdin io.Reader) {
	b := make([]byte, stdinBytes)
	for {
		n, err := stdin.Read(b)
		if n > 0 && c.write(api.ExecStreamingInput{Stdin: &api.ExecStreamingIOOperation{Data: b[:n]}}) != nil {
			return
		}
		switch {
		case err == io.EOF:
			_ = c.write(api.ExecStreamingInput{Stdin: &api.ExecStreamingIOOperation{Close: true}}) // who receives learns of what is wrong
			return
		case err != nil:
			c.conn.Close() // half a stdin is none
			return
		}
	}
}

// beat says now and then that we are there.
func (c *command) beat() {
	t := time.NewTicker(commandBeats)
	defer t.Stop()
	for {
		select {
		case <-c.over:
			return
		case <-t.C:
			if c.write(api.ExecStreamingInput{}) != nil {
				return
			}
		}
	}
}

// receive passes the output on, and gives the exit status. A command whose output nobody takes any more goes on to its end.
func (c *command) receive(stdout, stderr io.Writer) (int, error) {
	c.conn.SetReadLimit(frameBytes)
	for {
		var m api.ExecStreamingOutput
		if err := c.conn.ReadJSON(&m); err != nil {
			if end, ok := errors.AsType[*websocket.CloseError](err); ok && end.Text != "" {
				return 0, errors.New(end.Text) // Nomad's reason, without the websocket's
			}
			return 0, fmt.Errorf("the connection ended before the command did: %w", err)
		}
		switch {
		case m.Stdout != nil:
			_, _ = stdout.Write(m.Stdout.Data)
		case m.Stderr != nil:
			_, _ = stderr.Write(m.Stderr.Data)
		case m.Exited && m.Result != nil:
			return m.Result.ExitCode, nil
		}
	}
}

// interrupt ends each read and write of streams, now and later, of those whose type can.
func interrupt(streams ...any) {
	past := time.Unix(1, 0)
	for _, s := range streams {
		if s, ok := s.(interface{ SetDeadline(time.Time) error }); ok {
			_ = s.SetDeadline(past)
		}
	}
}
