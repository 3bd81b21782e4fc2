package wire

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// State is what the program found of the container's keeper.
type State string

// The states of a keeper.
const (
	StateReady State = "ready"  // it answers on this session
	StateDead  State = "dead"   // it is gone for good; the session reads its records
	StateNone  State = "none"   // there never was one here; there is no session
	StateBusy  State = "busy"   // it is there and did not answer in time; there is no session
	StateFiles State = "files"  // no keeper is concerned: archives
	StateNoWay State = "no-way" // it could not make the container, and never will; there is no session
)

// Hello is the program's first line: magic, version, JSON.
type Hello struct {
	State    State
	Program  string        `json:",omitempty"` // the program's own version
	Features []sdk.Feature `json:",omitempty"` // what the keeper can do here
	Notes    []string      `json:",omitempty"` // what it cannot, and why, for people
	PID      int           `json:",omitempty"` // of the keeper, in the container
	Keeper   string        `json:",omitempty"` // a random name that it gave itself, also once it is gone
	Error    *Failure      `json:",omitempty"` // why there is no session
}

const (
	magic    = "slipway-shim"
	maxHello = 8 << 10
	maxNotes = 16
)

// VersionError says that the program speaks another version of the protocol.
type VersionError struct{ Theirs int }

// Error names both versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("the shim in the container speaks version %d of its protocol, this driver version %d", e.Theirs, Version)
}

// WriteHello sends it.
func WriteHello(w io.Writer, h Hello) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s %d %s\n", magic, Version, b)
	return err
}

// ReadHello receives it, and not a byte more than the line. An end before the first byte is io.EOF.
func ReadHello(r *bufio.Reader) (Hello, error) {
	var h Hello
	var line strings.Builder
	for {
		b, err := r.ReadByte()
		if err == io.EOF && line.Len() > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return h, err
		}
		if b == '\n' {
			break
		}
		if line.WriteByte(b); line.Len() > maxHello {
			return h, broken("a first line of more than %d bytes", maxHello)
		}
	}
	word, rest, _ := strings.Cut(line.String(), " ")
	number, text, _ := strings.Cut(rest, " ")
	version, err := strconv.Atoi(number)
	if word != magic || err != nil {
		return h, broken("a first line that is not the shim's: %q", Text(line.String()[:min(line.Len(), 200)]))
	}
	if version != Version {
		return h, &VersionError{Theirs: version}
	}
	if err := Decode([]byte(text), &h); err != nil {
		return h, err
	}
	h.Program, h.Keeper = Text(h.Program), Text(h.Keeper)
	h.Notes = h.Notes[:min(len(h.Notes), maxNotes)]
	for i := range h.Notes {
		h.Notes[i] = Text(h.Notes[i])
	}
	for i, f := range h.Features {
		h.Features[i] = sdk.Feature(identifier(string(f)))
	}
	return h, nil
}
