//go:build linux

package nomadtest

import (
	"crypto/tls"
	"net/http"
	"slices"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestCluster has a server and two clients, which are one cluster whoever is asked; all of it wants certificates and tokens.
func TestCluster(t *testing.T) {
	testkit.Soak(t, "several agents")
	t.Parallel()
	ctx := testkit.Context(t)
	s, clients := StartCluster(t, Options{ACL: true, TLS: NewTLS(t)}, Options{}, Options{HCL: `client { node_class = "second" }`})
	var ids []string
	for _, c := range clients {
		ids = append(ids, c.NodeID())
	}
	if s.NodeID() != "" || len(ids) != 2 || ids[0] == ids[1] {
		t.Fatalf("the server's node is %q, the clients' are %q", s.NodeID(), ids)
	}
	for _, a := range []*Agent{s, clients[0], clients[1]} {
		nodes, _, err := a.Client().Nodes().List(new(api.QueryOptions).WithContext(ctx))
		if err != nil || len(nodes) != 2 {
			t.Fatalf("%s knows of %d nodes, error %v", a.Address(), len(nodes), err)
		}
		for _, n := range nodes {
			if !slices.Contains(ids, n.ID) || n.NodeClass == "second" != (n.ID == ids[1]) {
				t.Errorf("%s knows of node %s, class %q", a.Address(), n.ID, n.NodeClass)
			}
		}
	}
	alloc, err := s.Run(ctx, sleeper(RawExec))
	if err != nil {
		t.Fatal(err)
	}
	if code, err := s.Exec(ctx, alloc, TaskName, []string{"/bin/sh", "-c", "exit 3"}, nil, nil, nil); err != nil || code != 3 {
		t.Errorf("through the server: code %d, error %v", code, err)
	}
	for name, change := range map[string]func(*api.Config){
		"without a token":                         func(c *api.Config) { c.SecretID = "" },
		"with a certificate of another authority": func(c *api.Config) { c.HttpClient = strange(t, NewTLS(t), s.tls.CA) },
		"without a certificate":                   func(c *api.Config) { c.HttpClient = strange(t, &TLS{}, s.tls.CA) },
	} {
		conf := s.apiConfig(&http.Client{Transport: s.transport})
		change(conf)
		c, err := api.NewClient(conf)
		if err != nil {
			t.Fatal(err)
		}
		if nodes, _, err := c.Nodes().List(new(api.QueryOptions).WithContext(ctx)); err == nil && len(nodes) > 0 {
			t.Errorf("%s: %d nodes are listed", name, len(nodes))
		}
	}
	node := ids[0]
	clients[0].Kill()
	if err := clients[0].Restart(ctx); err != nil || clients[0].NodeID() != node {
		t.Errorf("a client that was killed came back as %s: %v", clients[0].NodeID(), err)
	}
}

// strange is a client that trusts ca and shows a certificate of another.
func strange(t *testing.T, other *TLS, ca string) *http.Client {
	tr := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	t.Cleanup(tr.CloseIdleConnections)
	c := &http.Client{Transport: tr}
	if err := api.ConfigureTLS(c, &api.TLSConfig{CACert: ca, ClientCert: other.Operator, ClientKey: other.OperatorKey}); err != nil {
		t.Fatal(err)
	}
	return c
}
