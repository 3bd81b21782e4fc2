//go:build linux

package nomadtest

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// TLS names files of a certification authority that was made for one test, and of what it has signed.
type TLS struct {
	CA                    string
	Server, ServerKey     string // of agents that are servers of the region global, at 127.0.0.1
	Node, NodeKey         string // of those that are its clients only: like Nomad's own, it names the role, and no address
	Operator, OperatorKey string // of whoever calls the API: an agent with Options.TLS asks for one
}

// NewTLS makes an authority and its certificates, good until the test ends.
func NewTLS(t testing.TB) *TLS {
	t.Helper()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name+".pem") }
	f := &TLS{
		CA: file("ca"), Server: file("server"), ServerKey: file("server-key"), Node: file("node"), NodeKey: file("node-key"),
		Operator: file("operator"), OperatorKey: file("operator-key"),
	}
	if err := f.write(); err != nil {
		t.Fatalf("nomadtest: %v", err)
	}
	return f
}

// nodeName is what the certificate of a client of the region global is for.
const nodeName = "client.global.nomad"

// api is how an operator calls an agent with it.
func (f *TLS) api(role role) *api.TLSConfig {
	c := &api.TLSConfig{CACert: f.CA, ClientCert: f.Operator, ClientKey: f.OperatorKey}
	if role == working {
		c.TLSServerName = nodeName
	}
	return c
}

// agent gives the files of an agent's certificate and key.
func (f *TLS) agent(role role) (cert, key string) {
	if role == working {
		return f.Node, f.NodeKey
	}
	return f.Server, f.ServerKey
}

func (f *TLS) write() error {
	ca, caKey, err := certificate("slipway test authority")
	if err != nil {
		return err
	}
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	if err := sign(f.CA, "", ca, ca, caKey, caKey); err != nil {
		return err
	}
	server, serverKey, err := certificate("server.global.nomad")
	if err != nil {
		return err
	}
	server.DNSNames = []string{"server.global.nomad", "client.global.nomad", "localhost"}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	node, nodeKey, err := certificate(nodeName)
	if err != nil {
		return err
	}
	node.DNSNames = []string{nodeName}
	operator, operatorKey, err := certificate("operator")
	if err != nil {
		return err
	}
	return cmp.Or(
		sign(f.Server, f.ServerKey, server, ca, serverKey, caKey),
		sign(f.Node, f.NodeKey, node, ca, nodeKey, caKey),
		sign(f.Operator, f.OperatorKey, operator, ca, operatorKey, caKey),
	)
}

// certificate is what there is to sign, with its key.
func certificate(name string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		return nil, nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key, nil
}

// sign writes a signed certificate, and its key where a file is named for it.
func sign(file, keyFile string, c, by *x509.Certificate, key, with *ecdsa.PrivateKey) error {
	signed, err := x509.CreateCertificate(rand.Reader, c, by, key.Public(), with)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600); err != nil || keyFile == "" {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
}
