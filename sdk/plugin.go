package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Plugin is all that a plugin program is. Its main hands one to rpc.Serve and does nothing else.
type Plugin struct {
	Name    string // such as "memory"; a binary slipway-memory is the usual place
	Version string // of the plugin, semantic

	// Config and Worker are values of the structs behind a plugin block's and a worker block's config; [SchemaOf] tells how a
	// struct becomes a schema. Nil: the block takes no settings.
	Config any
	Worker any

	// Open makes the runtime from checked settings. It dials nothing. Errors with the class Invalid and [ReasonConfig] are
	// shown to the operator beside the block. ctx ends when the plugin is told to stop.
	Open func(ctx context.Context, cfg Config) (Runtime, error)
}

// Config is what the operator wrote for one plugin, checked against its schemas and with defaults filled in.
type Config struct {
	Plugin  Block
	Workers []Block // every worker block that names this plugin
	Log     *slog.Logger
}

// Block is one block of settings.
type Block struct {
	Name   string          // the block's label
	Values json.RawMessage // an object; empty: no settings
}

// Decode fills a pointer to the struct that the schema came from. Unknown settings and wrong types are Invalid with [ReasonConfig].
func (b Block) Decode(v any) error {
	if len(b.Values) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b.Values))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return NewInvalid(ReasonConfig, "settings of %q: %v", b.Name, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return NewInvalid(ReasonConfig, "settings of %q: more than one value", b.Name)
	}
	return nil
}

// PluginInfo is what a plugin says of itself.
type PluginInfo struct {
	Name         string
	Version      string
	SDK          string // version of the contract's SDK it was built with
	Features     []Feature
	PluginSchema Schema
	WorkerSchema Schema
}

// HostInfo is what a host says of itself.
type HostInfo struct {
	Version      string
	Installation string
	Features     []Feature
}

// Version of this SDK.
const Version = "0.1.0-alpha.1"

// Duration is a setting such as "1m30s".
type Duration time.Duration

// UnmarshalJSON takes Go's notation for durations.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("want a duration such as \"1m30s\": %w", err)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

// MarshalJSON writes Go's notation for durations.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// Bytes is a setting such as "64MiB": a whole number, and B, KiB, MiB, GiB, TiB, or nothing for bytes.
type Bytes int64

var byteUnits = []struct {
	suffix string
	size   int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}, {"", 1}}

// ParseBytes reads the notation of [Bytes].
func ParseBytes(s string) (Bytes, error) {
	for _, u := range byteUnits {
		num, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(num), 10, 64)
		if err != nil || n < 0 || n > (1<<63-1)/u.size {
			break
		}
		return Bytes(n * u.size), nil
	}
	return 0, fmt.Errorf("%q is not a size: write a whole number with B, KiB, MiB, GiB or TiB, such as \"64MiB\"", s)
}

// UnmarshalJSON takes the notation of Bytes, or a number of bytes.
func (n *Bytes) UnmarshalJSON(b []byte) error {
	var num int64
	if err := json.Unmarshal(b, &num); err == nil && num >= 0 {
		*n = Bytes(num)
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("want a size such as \"64MiB\": %w", err)
	}
	v, err := ParseBytes(s)
	if err != nil {
		return err
	}
	*n = v
	return nil
}
