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
	Agent, AgentKey       string // of agents: of the region global, at 127.0.0.1
	Operator, OperatorKey string // of whoever calls the API: an agent with Options.TLS asks for one
}

// NewTLS makes an authority and its certificates, good until the test ends.
func NewTLS(t testing.TB) *TLS {
	t.Helper()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name+".pem") }
	f := &TLS{CA: file("ca"), Agent: file("agent"), AgentKey: file("agent-key"), Operator: file("operator"), OperatorKey: file("operator-key")}
	if err := f.write(); err != nil {
		t.Fatalf("nomadtest: %v", err)
	}
	return f
}

// api is how an operator calls with it.
func (f *TLS) api() *api.TLSConfig {
	return &api.TLSConfig{CACert: f.CA, ClientCert: f.Operator, ClientKey: f.OperatorKey}
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
	agent, agentKey, err := certificate("server.global.nomad")
	if err != nil {
		return err
	}
	agent.DNSNames = []string{"server.global.nomad", "client.global.nomad", "localhost"}
	agent.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	operator, operatorKey, err := certificate("operator")
	if err != nil {
		return err
	}
	return cmp.Or(sign(f.Agent, f.AgentKey, agent, ca, agentKey, caKey), sign(f.Operator, f.OperatorKey, operator, ca, operatorKey, caKey))
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
