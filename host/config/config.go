// Package config reads an operator's file: which plugins there are, which workers they serve, and how placement chooses.
//
// It yields plain values with the places they came from. A plugin's own settings stay opaque (Body) until the plugin has told its
// schema; [Decode] then checks them. Nothing here starts or dials anything, and nothing here knows of the host.
package config

import (
	"time"

	"github.com/hashicorp/hcl/v2"
)

// Config is a whole file, or the built-in configuration where there is none.
type Config struct {
	File      string // its path; empty for the built-in one
	Plugins   []Plugin
	Workers   []Worker
	Placement Placement
	Timing    Timing
}

// Plugin is a plugin block: a program that may be run, and nothing that is not named here is.
type Plugin struct {
	Name    string
	Command string // with a slash: relative to the file's directory; without: sought beside slipway, then in PATH
	Args    []string
	Env     map[string]string // all that the plugin gets beyond a minimal environment; secret, with env() replaced
	SHA256  string            // 64 lower-case hex digits; the program must have it; empty: any
	Body    hcl.Body          // the config block's settings, for Decode; nil: none
	Range   hcl.Range         // of the block's header
}

// Worker is a worker block.
type Worker struct {
	Name     string
	Plugin   string // a plugin block's name
	Platform string // empty: as the plugin says
	Team     string // empty: as the plugin says, else shared
	Tags     []string
	Body     hcl.Body
	Range    hcl.Range
}

// Placement names the strategies of each chain, the first being primary; [Strategies] lists the names. Load fills in what the file
// leaves out. An empty chain that the file asks for leaves all to chance.
type Placement struct {
	Build   []string // of steps with inputs; default volume-locality, fewest-build-containers
	NoInput []string // of steps without, no_input in the file; default: as Build
	Check   []string // of checks; default random
}

// Timing holds the patience of the host. Each zero field means the documented default, which Load has filled in.
type Timing struct {
	MissingGrace time.Duration // how long a missing thing under the same incarnation may come back; default 5m
	WorkerGone   time.Duration // how long a worker may be away before its processes are lost; default 5m
	Stalled      time.Duration // without a status for so long, a worker is stalled; default 30s
}

// Dir is the directory that relative commands start from; empty for the built-in configuration.
func (c *Config) Dir() string { return dirOf(c.File) }
