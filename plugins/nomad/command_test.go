//go:build linux

package nomad

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
)

// TestCertificates has agents that show certificates as Nomad's own command line makes them: a command goes to a node whose certificate is for its role, and
// else by way of the agent at the block's address, which nobody else passes for. A token goes over TLS to all of them, or to none.
func TestCertificates(t *testing.T) {
	files, others := nomadtest.NewTLS(t), nomadtest.NewTLS(t)
	server, node := upgrading(t, files.Server, files.ServerKey), upgrading(t, files.Node, files.NodeKey)
	strange, plain := upgrading(t, others.Node, others.NodeKey), upgrading(t, "", "")
	eu := "eu"
	for name, test := range map[string]struct {
		block  string // its address
		expect string
		region *string // of the job
		node   agent
		by     way
		fails  bool
	}{
		"a node":                                 {block: server, node: agent{node, true}, by: direct},
		"a node, where another name is expected": {block: server, expect: "server.global.nomad", node: agent{node, true}, by: direct},
		"a node of another region":               {block: server, region: &eu, node: agent{node, true}, by: byTheBlock},
		"a node of another authority":            {block: server, node: agent{strange, true}, by: byTheBlock},
		"a node without TLS":                     {block: server, node: agent{plain, false}, by: byTheBlock},
		"a node that is away":                    {block: server, node: agent{"127.0.0.1:1", true}, by: byTheBlock},
		"a node that is not known":               {block: server, by: byTheBlock},
		"the block's address is the node's":      {block: server, node: agent{server, true}, by: byTheBlock},
		"the block's address, by a wrong name":   {block: server, expect: "nomad.example", by: byTheBlock, fails: true},
		"a node at the block's address":          {block: node, by: byTheBlock, fails: true},
		"nobody at the block's address":          {block: "127.0.0.1:1", by: unreached, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := newCluster(Config{
				Address: "https://" + test.block, CACert: files.CA, ClientCert: files.Operator, ClientKey: files.OperatorKey, TLSServerName: test.expect, MaxConnections: 8, Rate: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer k.close()
			conn, by, err := k.connect(testkit.Context(t), test.node, &api.Allocation{ID: "a", Job: &api.Job{Region: test.region}}, "task", []string{"true"})
			if err == nil {
				conn.Close()
			}
			if by != test.by || (err != nil) != test.fails {
				t.Errorf("by %d, want %d; error %v", by, test.by, err)
			}
		})
	}
}

// upgrading serves websockets, over TLS if a certificate is named, and gives its HOST:PORT.
func upgrading(t *testing.T, cert, key string) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if conn, err := new(websocket.Upgrader).Upgrade(w, q, nil); err == nil {
			conn.Close()
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are to fail
	t.Cleanup(s.Close)
	if cert == "" {
		s.Start()
		return s.Listener.Addr().String()
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	return s.Listener.Addr().String()
}

// TestFollowable divides what the agent at the block's address takes among the nodes whose commands all go by way of it.
func TestFollowable(t *testing.T) {
	p := &pool{c: Config{MaxConnections: 24}, nodes: make(map[string]*node)}
	for _, name := range []string{"a", "b", "c", "d"} {
		p.nodes[name] = &node{pool: p}
	}
	want := func(when string, name string, n int) {
		t.Helper()
		if got := p.nodes[name].followable(); got != n {
			t.Errorf("%s, %d containers of %s are followable, want %d", when, got, name, n)
		}
	}
	want("all reached", "a", 12)
	p.nodes["a"].detour.Store(true)
	want("one not reached", "a", 12)
	for _, name := range []string{"b", "c"} {
		p.nodes[name].detour.Store(true)
	}
	want("three not reached", "a", 4)
	want("three not reached", "d", 12)
	p.c.MaxConnections = 4
	want("few connections", "a", 1)
}
