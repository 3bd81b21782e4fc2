package storenet

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Kind is what a connection is for.
type Kind string

// The kinds of connections.
const (
	KindWorker  Kind = "worker"  // sdk/rpc
	KindSession Kind = "session" // Request and Reply
	KindPeer    Kind = "peer"    // sdk/rpc, of which one StreamIn
)

// Introduction is the first line on a connection.
type Introduction struct {
	Kind   Kind   `json:"kind"`
	Secret Secret `json:"secret"`
}

// welcome is the answer.
type welcome struct {
	Refused *Fault `json:"refused,omitempty"`
}

// NewSecret makes a secret that nobody guesses.
func NewSecret() Secret { return Secret(rand.Text()) }

// Is compares without telling by its time how far they agree.
func (s Secret) Is(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s), []byte(other)) == 1
}

// NewIdentity makes a certificate that is good for one process, and its fingerprint.
func NewIdentity() (cert tls.Certificate, fingerprint string, err error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	// Nobody looks at what it says, which is why it may say so little.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(100, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, fingerprintOf(der), nil
}

func fingerprintOf(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// settings are what both sides have in common.
func settings() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{Protocol}, SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true}
}

var errAnother = errors.New("another store, or something else, answers there: its certificate is not the one that was expected")

// handshake makes sure that the other side is the store with that fingerprint. It closes raw if it is not.
func handshake(ctx context.Context, raw net.Conn, fingerprint string) (*tls.Conn, error) {
	config := settings()
	config.InsecureSkipVerify = true // in favour of what follows
	config.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 || !Secret(fingerprint).Is(Secret(fingerprintOf(s.PeerCertificates[0].Raw))) {
			return errAnother
		}
		return nil
	}
	c := tls.Client(raw, config)
	err := c.HandshakeContext(ctx)
	if err == nil && c.ConnectionState().NegotiatedProtocol != Protocol {
		err = fmt.Errorf("it does not speak %s", Protocol)
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return c, nil
}

// introduce says what the connection is for. A refusal is an error of the contract. It closes c after any error.
func introduce(ctx context.Context, c net.Conn, as Introduction) error {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err := writeLine(c, as)
	var answer welcome
	if err == nil {
		err = readByByte(c, maxAnswer, &answer)
	}
	if err == nil && answer.Refused != nil {
		err = answer.Refused.Err()
	}
	if !stop() { // ctx has ended: the connection's deadline has passed, or is about to
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
	}
	return err
}

// Server answers what the other side of a connection says first.
type Server struct {
	config *tls.Config
}

// NewServer makes one with that identity.
func NewServer(cert tls.Certificate) *Server {
	config := settings()
	config.Certificates = []tls.Certificate{cert}
	return &Server{config: config}
}

// Meet does a store's part of the beginning, up to the first line. The caller bounds it, by the connection's deadline, and closes raw after an error.
func (s *Server) Meet(ctx context.Context, raw net.Conn) (*tls.Conn, Introduction, error) {
	c := tls.Server(raw, s.config)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, Introduction{}, err
	}
	if p := c.ConnectionState().NegotiatedProtocol; p != Protocol {
		return nil, Introduction{}, fmt.Errorf("it does not speak %s", Protocol)
	}
	var as Introduction
	if err := readByByte(c, maxFirstLine, &as); err != nil {
		return nil, Introduction{}, err
	}
	return c, as, nil
}

// Welcome says yes.
func Welcome(c net.Conn) error { return writeLine(c, welcome{}) }

// Refuse says no, with a reason.
func Refuse(c net.Conn, why error) error { return writeLine(c, welcome{Refused: NewFault(why)}) }

// ReasonSecret is that of a refusal of a secret: the store has another by now, or the ticket was used or is too old.
const ReasonSecret sdk.Reason = "store-secret"
