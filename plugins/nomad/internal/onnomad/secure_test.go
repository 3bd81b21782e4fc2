//go:build linux

package onnomad

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// needed is what a token needs, as the operator's page says: capabilities in the namespace, nodes, and the host volume of the store, if there is one.
func needed() []string {
	return []string{"list-jobs", "read-job", "submit-job", "alloc-exec", "node:read", "host_volume"}
}

// policy is one that has what is needed but for some.
func policy(without ...string) string {
	var text strings.Builder
	var capabilities []string
	for _, n := range needed() {
		switch {
		case slices.Contains(without, n):
		case n == "node:read":
			text.WriteString("node { policy = \"read\" }\n")
		case n == "host_volume":
			text.WriteString("host_volume \"slipway\" { policy = \"write\" }\n")
		default:
			capabilities = append(capabilities, fmt.Sprintf("%q", n))
		}
	}
	fmt.Fprintf(&text, "namespace \"default\" {\n  capabilities = [%s]\n}\n", strings.Join(capabilities, ", "))
	return text.String()
}

// secure is an agent that asks for tokens and certificates.
type secure struct {
	*nomadtest.Agent
	tls *nomadtest.TLS
}

// settings are those of a block that has a token in a file.
func (s *secure) settings(t testing.TB, token string) (c nomad.Config, file string) {
	t.Helper()
	c = settings(s.Agent, nomadtest.Docker)
	c.CACert, c.ClientCert, c.ClientKey = s.tls.CA, s.tls.Operator, s.tls.OperatorKey
	c.TokenFile = filepath.Join(t.TempDir(), "token")
	write(t, c.TokenFile, token+"\n")
	return c, c.TokenFile
}

// token makes one with a policy; expires may be nil.
func (s *secure) token(t testing.TB, name, rules string, lives time.Duration) *api.ACLToken {
	t.Helper()
	if _, err := s.Client().ACLPolicies().Upsert(&api.ACLPolicy{Name: name, Rules: rules}, new(api.WriteOptions).WithContext(testkit.Context(t))); err != nil {
		t.Fatal(err)
	}
	token, _, err := s.Client().ACLTokens().Create(&api.ACLToken{Name: name, Type: "client", Policies: []string{name}, ExpirationTTL: lives}, new(api.WriteOptions).WithContext(testkit.Context(t)))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestSecure has one agent that wants tokens and certificates, and what the plugin makes of it.
func TestSecure(t *testing.T) {
	testkit.Soak(t, "an agent of its own")
	s := &secure{tls: nomadtest.NewTLS(t)}
	s.Agent = nomadtest.Start(t, nomadtest.Options{Dev: true, Docker: true, ACL: true, TLS: s.tls, HostVolumes: []string{"slipway"}, HCL: `acl { token_min_expiration_ttl = "1s" }`})
	t.Run("smallest policy", s.smallestPolicy)
	t.Run("lacking", s.lacking)
	t.Run("token file", s.tokenFile)
	t.Run("expired", s.expired)
	t.Run("certificates", s.certificates)
	t.Run("image", s.image)
}

// TestSecureNodes has nodes whose certificates name their role and no address, as Nomad's own do: commands go to the nodes themselves all the same. By way of
// the server the nodes would share its connections, and follow half as many containers each.
func TestSecureNodes(t *testing.T) {
	testkit.Soak(t, "several agents")
	files := nomadtest.NewTLS(t)
	server, nodes := nomadtest.StartCluster(t, nomadtest.Options{ACL: true, TLS: files}, nomadtest.Options{}, nomadtest.Options{})
	c := settings(server, nomadtest.RawExec)
	c.CACert, c.ClientCert, c.ClientKey, c.Token = files.CA, files.Operator, files.OperatorKey, server.Token()
	c.MaxConnections = 12
	rt := open(t, c)
	ctx := testkit.Context(t)
	var w []sdk.Worker
	for i, n := range nodes {
		w = append(w, workerOn(t, rt, n))
		id := makeContainer(t, w[i], fmt.Sprintf("secure-%d", i))
		if out, exit, err := run(ctx, w[i], id, sh("p", "echo here; exit 4")); err != nil || out != "here\n" || exit.Code != 4 {
			t.Errorf("output %q, exit %+v, error %v", out, exit, err)
		}
	}
	for i := range w {
		if status := healthy(t, w[i]); status.Capacity.Containers != 6 {
			t.Errorf("node %d takes %d containers, want 6", i, status.Capacity.Containers)
		}
	}
}

// smallestPolicy has a whole life of a container and a volume with what the operator's page lists.
func (s *secure) smallestPolicy(t *testing.T) {
	c, _ := s.settings(t, s.token(t, "enough", policy(), 0).SecretID)
	c.Store = &nomad.StoreConfig{HostVolume: "slipway", Path: program("slipway-store")}
	w := workerOn(t, open(t, c), s.Agent)
	ctx := testkit.Context(t)
	if err := w.CreateVolume(ctx, sdk.VolumeSpec{ID: "v", Token: "t"}); err != nil { // the first use makes the store, which stays
		t.Fatal(err)
	}
	if status := healthy(t, w); status.VolumeIncarnation == "" {
		t.Errorf("%+v", status)
	}
	unchanged(t, s.Agent)
	with := spec("allowed")
	with.Mounts = []sdk.Mount{{Volume: "v", Path: "/v"}}
	id := makeSpec(t, w, with)
	if out, exit, err := run(ctx, w, id, sh("p", "id -un; echo kept >/v/file; exit 4")); err != nil || out != "root\n" || exit.Code != 4 {
		t.Errorf("output %q, exit %+v, error %v", out, exit, err)
	}
	var listed []sdk.ContainerID
	if err := w.ListContainers(ctx, sdk.Filter{}, func(i sdk.ContainerInfo) error { listed = append(listed, i.ID); return nil }); err != nil || !slices.Equal(listed, []sdk.ContainerID{id}) {
		t.Errorf("listed %q, error %v", listed, err)
	}
	if err := w.DestroyContainer(ctx, id); err != nil {
		t.Error(err)
	}
	if err := w.SealVolume(ctx, "v"); err != nil {
		t.Error(err)
	}
	var tar bytes.Buffer
	if err := w.StreamOut(ctx, "v", sdk.StreamOut{Encoding: sdk.EncodingRaw}, &tar); err != nil || !bytes.Contains(tar.Bytes(), []byte("kept\n")) {
		t.Errorf("%d bytes, error %v", tar.Len(), err)
	}
	if err := w.DestroyVolume(ctx, "v"); err != nil {
		t.Error(err)
	}
}

// lacking takes one thing away at a time: the error names it.
func (s *secure) lacking(t *testing.T) {
	for _, lacks := range needed() {
		t.Run(lacks, func(t *testing.T) {
			unchanged(t, s.Agent)
			c, _ := s.settings(t, s.token(t, "lacks-"+strings.ReplaceAll(strings.ReplaceAll(lacks, ":", "-"), "_", "-"), policy(lacks), 0).SecretID)
			rt := open(t, c)
			if lacks == "node:read" {
				status, err := awayWorker(t, rt).Status(testkit.Context(t))
				if err != nil || status.Health != sdk.Away {
					t.Errorf("%+v, %v", status, err)
				}
				says(t, errors.New(status.Reason), "", "", lacks, s.Address())
				return
			}
			w := workerOn(t, rt, s.Agent)
			switch lacks {
			case "list-jobs":
				err := w.ListContainers(testkit.Context(t), sdk.Filter{}, func(sdk.ContainerInfo) error { return nil })
				says(t, err, sdk.Unavailable, "", lacks, "Permission denied", s.Address())
				return
			case "host_volume":
				c.Store = &nomad.StoreConfig{HostVolume: "slipway", Path: program("slipway-store"), CPU: 50}
				c.Pool = "default" // which has another job, that is to be registered
				w = workerOn(t, open(t, c), s.Agent)
				err := w.CreateVolume(testkit.Context(t), sdk.VolumeSpec{ID: "w", Token: "t"})
				says(t, err, sdk.Unavailable, "", lacks, "Permission denied", s.Address())
				return
			}
			health := sdk.Away
			if lacks == "alloc-exec" {
				health = sdk.Degraded // Nomad refuses commands for all reasons alike
			}
			// Until the look at what the node can is over.
			status := shows(t, w, "the worker names "+lacks, func(s sdk.Status) bool { return strings.Contains(s.Reason, lacks) })
			if status.Health != health {
				t.Errorf("%+v", status)
			}
			says(t, errors.New(status.Reason), "", "", "Permission denied", s.Address())
		})
	}
}

// tokenFile changes the token under a runtime, which needs no restart.
func (s *secure) tokenFile(t *testing.T) {
	unchanged(t, s.Agent)
	c, file := s.settings(t, "6e6f7468-696e-6720-6174-20616c6c2121")
	rt := open(t, c)
	first := s.token(t, "first", policy(), 0)
	write(t, file, first.SecretID+"\n")
	w := workerOn(t, rt, s.Agent)
	id := makeContainer(t, w, "renewed")
	if _, exit, err := run(testkit.Context(t), w, id, sh("before", "true")); err != nil || exit.Code != 0 {
		t.Fatalf("exit %+v, error %v", exit, err)
	}
	second := s.token(t, "second", policy(), 0)
	if _, err := s.Client().ACLTokens().Delete(first.AccessorID, new(api.WriteOptions).WithContext(testkit.Context(t))); err != nil {
		t.Fatal(err)
	}
	err := w.CreateContainer(testkit.Context(t), spec("between"), nil)
	says(t, err, sdk.Unavailable, "", "token")
	write(t, file, second.SecretID+"\n")
	if _, exit, err := run(testkit.Context(t), w, makeContainer(t, w, "after"), sh("after", "exit 3")); err != nil || exit.Code != 3 {
		t.Errorf("exit %+v, error %v", exit, err)
	}
}

// expired has a token that the servers' clock has ended.
func (s *secure) expired(t *testing.T) {
	unchanged(t, s.Agent)
	c, file := s.settings(t, s.token(t, "long", policy(), 0).SecretID)
	w := workerOn(t, open(t, c), s.Agent)
	short := s.token(t, "short", policy(), time.Second)
	ctx := testkit.Context(t)
	testkit.Until(t, "the token has expired", func() bool {
		_, _, err := s.Client().Nodes().List((&api.QueryOptions{AuthToken: short.SecretID}).WithContext(ctx))
		return err != nil && ctx.Err() == nil
	})
	write(t, file, short.SecretID+"\n")
	says(t, w.CreateContainer(testkit.Context(t), spec("expired"), nil), sdk.Unavailable, "", "still valid", "read-job")
}

// certificates are not what they should be.
func (s *secure) certificates(t *testing.T) {
	unchanged(t, s.Agent)
	other := nomadtest.NewTLS(t)
	for name, test := range map[string]struct {
		change func(*nomad.Config)
		want   string
	}{
		"authority":      {func(c *nomad.Config) { c.CACert = other.CA }, "unknown authority"},
		"name":           {func(c *nomad.Config) { c.TLSServerName = "nomad.example" }, "nomad.example"},
		"no certificate": {func(c *nomad.Config) { c.ClientCert, c.ClientKey = "", "" }, "certificate"},
		"no TLS":         {func(c *nomad.Config) { c.Address = "http" + strings.TrimPrefix(c.Address, "https") }, "HTTPS"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := s.settings(t, s.Token())
			test.change(&c)
			w := awayWorker(t, open(t, c))
			status, err := w.Status(testkit.Context(t))
			if err != nil || status.Health != sdk.Away || !strings.Contains(status.Reason, test.want) || !strings.Contains(status.Reason, c.Address) {
				t.Errorf("%+v, %v; want it to be away, for %q", status, err, test.want)
			}
		})
	}
	c, _ := s.settings(t, s.Token())
	c.TLSServerName = "server.global.nomad"
	workerOn(t, open(t, c), s.Agent)
}

// image asks for one that nobody has.
func (s *secure) image(t *testing.T) {
	unchanged(t, s.Agent)
	c, _ := s.settings(t, s.Token())
	c.Store = &nomad.StoreConfig{HostVolume: "nowhere", Path: program("slipway-store")} // which steps without volumes do not need
	w := workerOn(t, open(t, c), s.Agent)
	if err := w.DestroyContainer(testkit.Context(t), "none"); err != nil {
		t.Errorf("destroying what is not there: %v", err)
	}
	asked := spec("pulled")
	asked.Image.Ref = "127.0.0.1:1/none:1" // a registry that refuses at once
	var told []string
	err := w.CreateContainer(testkit.Context(t), asked, func(p sdk.Progress) { told = append(told, p.Message) })
	says(t, err, sdk.Unavailable, "", "127.0.0.1:1/none", "refused")
	if !strings.Contains(strings.Join(told, "\n"), "127.0.0.1:1/none") {
		t.Errorf("its progress was %q", told)
	}
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { // that has nothing, and says so
		if q.URL.Path == "/v2/" {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
	}))
	defer registry.Close()
	asked = spec("unknown")
	asked.Image.Ref = strings.TrimPrefix(registry.URL, "http://") + "/none:1"
	says(t, w.CreateContainer(testkit.Context(t), asked, nil), sdk.Invalid, sdk.ReasonImage, asked.Image.Ref)
	asked = spec("odd")
	asked.Image.Ref = "No Such Name"
	says(t, w.CreateContainer(testkit.Context(t), asked, nil), sdk.Invalid, sdk.ReasonImage, "No Such Name")
}

// awayWorker is the one of a block whose cluster cannot be asked for its nodes.
func awayWorker(t testing.TB, rt sdk.Runtime) sdk.Worker {
	t.Helper()
	until(t, rt, "the block's own worker", func(told map[string]sdk.WorkerInfo) bool { return told["pool"].Name != "" })
	w, err := rt.Worker("pool")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func write(t testing.TB, file, text string) {
	t.Helper()
	// In one step, as whoever renews a token should.
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}
