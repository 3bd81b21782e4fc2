package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Plugin is all that a plugin program is. Its main hands one to rpc.Serve and does nothing else.
type Plugin struct {
	Name    string // such as "memory"; a binary slipway-memory is the usual place; must be set
	Version string // of the plugin, semantic; may be empty

	// Config and Worker are values of the structs behind a plugin block's and a worker block's config, only looked at for their
	// types; [SchemaOf] tells how a struct becomes a schema. Nil: the block takes no settings.
	Config any
	Worker any

	// Open makes the runtime from checked settings; it must be set, and is called once. It dials nothing. Errors with the class
	// Invalid and [ReasonConfig] are shown to the operator beside the block. ctx ends when the plugin is told to stop, not when
	// Open returns: it may bound what the runtime does by itself.
	Open func(ctx context.Context, cfg Config) (Runtime, error)
}

// Config is what the operator wrote for one plugin, checked by the host against its schemas and with defaults filled in. A setting
// without a value or a default is left out, and so is a nested block that was not written, whatever defaults are in it.
type Config struct {
	Plugin  Block
	Workers []Block      // every worker block that names this plugin
	Log     *slog.Logger // goes to the host; never nil when it comes from rpc.Serve
}

// Block is one block of settings.
type Block struct {
	Name   string          // the block's label
	Values json.RawMessage // an object; empty: no settings
}

// Decode fills the struct that v points to and that the schema came from. What is not set keeps the value that it has there. Unknown
// settings and wrong types are Invalid with [ReasonConfig]; the error names settings and quotes no value, for that may be a
// secret. After an error the struct's content is undefined.
func (b Block) Decode(v any) error {
	if len(b.Values) == 0 {
		return nil
	}
	if !json.Valid(b.Values) {
		return NewInvalid(ReasonConfig, "settings of %q: not one whole JSON value", b.Name)
	}
	d := json.NewDecoder(bytes.NewReader(b.Values))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*json.InvalidUnmarshalError](err); ok {
		return NewInternal(nil, "settings of %q: Decode wants a pointer to a struct, not %T", b.Name, v)
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		what, _, _ := strings.Cut(e.Value, " ") // what follows may be the value itself
		if e.Field == "" {
			return NewInvalid(ReasonConfig, "settings of %q: want %s, not this %s", b.Name, wanted(e.Type), what)
		}
		return NewInvalid(ReasonConfig, "settings of %q: %q must be %s, not this %s", b.Name, e.Field, wanted(e.Type), what)
	}
	if json.Unmarshal(b.Values, v) == nil { // so all values fit, and the complaint is of a name
		return NewInvalid(ReasonConfig, "settings of %q: %s", b.Name, strings.TrimPrefix(err.Error(), "json: "))
	}
	return NewInvalid(ReasonConfig, "settings of %q: a value does not fit its setting in %T", b.Name, v)
}

// wanted says in an operator's words what a Go type takes.
func wanted(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Duration]():
		return `a duration such as "1m30s"`
	case reflect.TypeFor[Bytes]():
		return `a size such as "64MiB"`
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return fmt.Sprintf("a whole number of %d bits", t.Bits())
	case reflect.Float64:
		return "a number of 64 bits"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return t.String()
}

// PluginInfo is what a plugin says of itself.
type PluginInfo struct {
	Name         string
	Version      string
	SDK          string // version of the contract's SDK it was built with
	PluginSchema Schema
	WorkerSchema Schema
}

// HostInfo is what a host says of itself.
type HostInfo struct {
	Version      string
	Installation string
}

// Version of this SDK.
const Version = "0.1.0-alpha.1"

// Duration is a setting such as "1m30s". It may be negative: a plugin that cannot use that says so in Open.
type Duration time.Duration

// UnmarshalJSON takes Go's notation for durations. Null changes nothing. The error is a *json.UnmarshalTypeError and does not
// quote the value.
func (d *Duration) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return unfit[Duration](b)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return unfit[Duration](b)
	}
	*d = Duration(v)
	return nil
}

// MarshalJSON writes Go's notation for durations.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// Bytes is a setting such as "64MiB": a whole number, and B, KiB, MiB, GiB, TiB, or nothing for bytes. It is never negative when
// it was read.
type Bytes int64

var byteUnits = []struct {
	suffix string
	size   uint64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}, {"", 1}}

// ParseBytes reads the notation of [Bytes]. Spaces around it and before the unit do not matter; signs and fractions are
// errors, and so is what is more than 63 bits. The error quotes s.
func ParseBytes(s string) (Bytes, error) {
	trimmed := strings.TrimSpace(s)
	for _, u := range byteUnits {
		num, ok := strings.CutSuffix(trimmed, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(num), 10, 63)
		if err != nil || n > math.MaxInt64/u.size {
			break
		}
		return Bytes(n * u.size), nil
	}
	return 0, fmt.Errorf("%q is not a size: write a whole number with B, KiB, MiB, GiB or TiB, such as \"64MiB\"", s)
}

// UnmarshalJSON takes the notation of Bytes, or a number of bytes. Null changes nothing. The error is a *json.UnmarshalTypeError and
// does not quote the value.
func (n *Bytes) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	s := string(b)
	if bytes.HasPrefix(b, []byte(`"`)) {
		if err := json.Unmarshal(b, &s); err != nil {
			return unfit[Bytes](b)
		}
	}
	v, err := ParseBytes(s)
	if err != nil {
		return unfit[Bytes](b)
	}
	*n = v
	return nil
}

// unfit complains of a JSON value by its type alone. encoding/json adds to such an error where the value was.
func unfit[T any](b []byte) error {
	kind := "number"
	switch string(b[:min(len(b), 1)]) {
	case `"`:
		kind = "string"
	case "{":
		kind = "object"
	case "[":
		kind = "array"
	case "t", "f":
		kind = "bool"
	}
	return &json.UnmarshalTypeError{Value: kind, Type: reflect.TypeFor[T]()}
}
