package storenet

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/slipway-run/slipway/sdk"
)

// Protocol names what is spoken, on the wire and in tickets.
const Protocol = "slipway.store/1"

// HelloFile is the name of the file in a store's run directory that holds its Hello.
const HelloFile = "hello.json"

// Hello is all that one must know to talk to a store, for as long as its process lives.
type Hello struct {
	Protocol    string   `json:"protocol"`
	Version     string   `json:"version"`     // of the program, for people
	Addresses   []string `json:"addresses"`   // HOST:PORT each, where others may reach it
	Local       string   `json:"local"`       // where commands in its task reach it
	Fingerprint string   `json:"fingerprint"` // of its certificate, see Identity
	Secret      Secret   `json:"secret"`      // lets one do everything
	Incarnation string   `json:"incarnation"` // of the volumes, which outlive the process
}

// Secret is a word that lets one do something. It does not show where values are printed or logged.
type Secret string

// String hides it.
func (Secret) String() string { return "(secret)" }

// GoString hides it.
func (Secret) GoString() string { return "(secret)" }

// LogValue hides it.
func (Secret) LogValue() slog.Value { return slog.StringValue("(secret)") }

// ReadHello reads a Hello that the program has printed.
func ReadHello(text []byte) (Hello, error) {
	var h Hello
	if err := json.Unmarshal(text, &h); err != nil {
		return Hello{}, fmt.Errorf("what the store says of itself cannot be read: %w", err)
	}
	if h.Protocol != Protocol {
		return Hello{}, sdk.NewInternal(nil, "the store (%s) speaks %q and this program %q: use slipway-store of the same version", h.Version, h.Protocol, Protocol)
	}
	if h.Fingerprint == "" || h.Secret == "" {
		return Hello{}, fmt.Errorf("what the store says of itself is not whole")
	}
	return h, nil
}
