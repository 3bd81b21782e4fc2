package sdk

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// VolumeID, ContainerID and ProcessID are made by the host and used once, for ever. A process's id is unique within its
// container. See [CheckID].
type (
	VolumeID    string
	ContainerID string
	ProcessID   string
)

// Token is the random word that makes a creation recognisable (rule 1).
type Token string

// NewToken makes a token of 128 random bits or more.
func NewToken() Token { return Token(rand.Text()) }

// MaxIDBytes is the length of the longest id: it leaves room for a runtime's own prefix in a DNS label of 63 bytes.
const MaxIDBytes = 48

// CheckID is nil for an id of 1 to [MaxIDBytes] of a-z, 0-9 and "-" that neither begins nor ends with "-". Else it is Invalid with
// [ReasonSpec], and of that kind.
func CheckID(kind Kind, id string) error {
	if id == "" {
		return &Error{Class: Invalid, Reason: ReasonSpec, Kind: kind, Message: string(kind) + " id is empty"}
	}
	ok := len(id) <= MaxIDBytes && id[0] != '-' && id[len(id)-1] != '-'
	for i := 0; ok && i < len(id); i++ {
		c := id[i]
		ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-'
	}
	if ok {
		return nil
	}
	return &Error{Class: Invalid, Reason: ReasonSpec, Kind: kind,
		Message: fmt.Sprintf("%s id %.60q must be 1 to %d of a-z, 0-9 and inner \"-\"", kind, id, MaxIDBytes)}
}

// CheckToken is Invalid with [ReasonSpec] unless the token is 1 to 128 printable ASCII bytes without spaces. The error does not
// quote it.
func CheckToken(t Token) error {
	ok := len(t) >= 1 && len(t) <= 128
	for i := 0; ok && i < len(t); i++ {
		ok = t[i] > ' ' && t[i] < 0x7f
	}
	if ok {
		return nil
	}
	return NewInvalid(ReasonSpec, "token must be 1 to 128 printable ASCII bytes; it has %d", len(t))
}

// LabelInstallation is on everything that a host makes: the id of its installation. Only things with one's own are
// ever reaped (rule 10).
const LabelInstallation = "slipway.installation"

// Bounds of labels. They fit Nomad's meta and Garden's properties.
const (
	MaxLabels          = 32
	MaxLabelKeyBytes   = 63
	MaxLabelValueBytes = 256
	MaxLabelsBytes     = 4 << 10
)

// CheckLabels is Invalid with [ReasonSpec] unless there are at most 32 labels, keys and values together take at most 4 KiB, each
// key is 1 to 63 of a-z, 0-9 and "._/-", and each value is at most 256 bytes of UTF-8, maybe none. Of several mistakes the first in
// the order of keys is told. Nil is no labels.
func CheckLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return NewInvalid(ReasonSpec, "%d labels; at most %d are taken", len(labels), MaxLabels)
	}
	total := 0
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		v := labels[k]
		total += len(k) + len(v)
		ok := len(k) >= 1 && len(k) <= MaxLabelKeyBytes
		for i := 0; ok && i < len(k); i++ {
			c := k[i]
			ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '/' || c == '-'
		}
		if !ok {
			return NewInvalid(ReasonSpec, "label key %.80q must be 1 to %d of a-z, 0-9 and \"._/-\"", k, MaxLabelKeyBytes)
		}
		if len(v) > MaxLabelValueBytes || !utf8.ValidString(v) {
			return NewInvalid(ReasonSpec, "label %q: the value must be at most %d bytes of UTF-8", k, MaxLabelValueBytes)
		}
	}
	if total > MaxLabelsBytes {
		return NewInvalid(ReasonSpec, "labels take %d bytes; at most %d are taken", total, MaxLabelsBytes)
	}
	return nil
}
