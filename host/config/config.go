// Package config reads an operator's file: which plugins there are, which workers they serve, and how placement chooses.
//
// It yields plain values with the places they came from. A plugin's own settings stay opaque (Body) until the plugin has told its
// schema; [Decode] then checks them. Nothing here starts or dials anything, and nothing here knows of the host.
package config

import (
	"cmp"
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
	Reaping   Reaping
	Artifacts Artifacts
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

	// Limits hold on this worker in every chain, instead of the placement block's. Zero: those.
	Limits    Limits
	Ephemeral bool // forgotten once it has been away for Timing.Prune, even where the plugin does not say so

	Body  hcl.Body
	Range hcl.Range
}

// Placement names the strategies of each chain, the first being primary; [Strategies] lists the names. Load fills in what the file
// leaves out. An empty chain that the file asks for leaves all to chance.
type Placement struct {
	Build   []string // of steps with inputs; default volume-locality, fewest-build-containers
	NoInput []string // of steps without, no_input in the file; default: as Build
	Check   []string // of checks; default random

	// Limits hold on every worker that has none of its own, each in the chains that name its strategy: limit-active-containers,
	// limit-active-tasks, limit-active-volumes.
	Limits Limits
	// WaitLimit bounds how long a step waits for a place; wait_limit in the file. Zero, the default: no bound.
	WaitLimit time.Duration
	// Steps is how many steps go side by side in this host; max_steps in the file. Zero, the default: as many as it can open files for.
	Steps int
	// MaxPassed is how many places may be given past a container that waits, to such as come later and take of what it waits for, before a worker is
	// reserved for it; max_passed in the file. Zero, the default: 32. A number that is never reached leaves them unreserved.
	MaxPassed int
}

// Limits bound what a worker holds at a time. Zero is no limit.
type Limits struct {
	Containers int // max_containers in the file
	Tasks      int // max_tasks: containers that are no checks

	// Volumes is max_volumes: how many volumes the host has on the worker, in whatever state: copies of artifacts and caches, containers' own
	// inputs, outputs and caches, what is being filled, and what is still to be destroyed. A container gets its place only where there is
	// room for all that has to be made for it: a volume for each input, output and cache of its own, and one for each input, cache and image of which
	// the worker has no copy yet and gets none for another container. What is mounted read-only as it is needs no volume beside the copy. So
	// one with an input needs two, and more than the limit is never to be had. What a runtime makes for itself in a container does not count.
	// Where a container waits for nothing but this, copies that nothing uses and that another worker or the host has as well are given up.
	Volumes int
}

// Timing holds the patience of the host. Each zero field means the documented default, which Load has filled in.
type Timing struct {
	MissingGrace time.Duration // how long a missing thing under the same incarnation may come back, and a superseded cache stays; default 5m
	WorkerGone   time.Duration // how long a worker may be away before its processes are lost; default 5m
	Stalled      time.Duration // without a status for so long, a worker is stalled; default 30s
	Answer       time.Duration // how long a call on a worker may go on without an answer or progress; the worker then counts as gone for it; default 30m
	Prune        time.Duration // an ephemeral worker that is away for so long is forgotten, with what was on it; default 5m
}

// Reaping says when the host takes away what nobody uses. Each zero field means the documented default, which Load has filled in.
type Reaping struct {
	Every     time.Duration // how often it looks; default 30s
	Failed    time.Duration // how long the container of a command that failed is kept, where KeepFailed says so; default 120h
	Abandoned time.Duration // how long a run that is not under way can be resumed, counted from its containers' last change where the host was started again; default 24h
	Records   time.Duration // how long records and output of what has ended are kept; default 168h

	// KeepFailed leaves containers of steps whose command failed for people to look at; keep_failed in the file. Default: none are.
	KeepFailed bool

	// OutputSize, output_size in the file, is how many bytes of one process's output are kept, the first ones: what comes after is told as a gap, and the
	// process goes on. Default: all.
	OutputSize int64
}

// OrDefault fills in what is zero.
func (r Reaping) OrDefault() Reaping {
	d := Default().Reaping
	return Reaping{Every: cmp.Or(r.Every, d.Every), Failed: cmp.Or(r.Failed, d.Failed),
		Abandoned: cmp.Or(r.Abandoned, d.Abandoned), Records: cmp.Or(r.Records, d.Records), KeepFailed: r.KeepFailed, OutputSize: r.OutputSize}
}

// Dir is the directory that relative commands start from; empty for the built-in configuration.
func (c *Config) Dir() string { return dirOf(c.File) }
