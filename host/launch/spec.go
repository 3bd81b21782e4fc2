package launch

import (
	"context"
	"log/slog"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Spec is one plugin as the operator configured it.
type Spec struct {
	Name    string // the plugin block's label
	Command string // as configured; see [Resolve]
	Dir     string // of the config file: base of a relative Command, and the plugin's working directory; empty: the host's own
	Args    []string

	// Env is passed on as it is. Beside it a plugin gets PATH, HOME, TMPDIR and LANG of its own, each of which Env may
	// override, and the variables of the handshake, which it may not. Nothing of the host's environment is inherited.
	Env map[string]string

	// SHA256 pins the program's file, in hexadecimal. Empty: not pinned.
	SHA256 string

	// Configure turns the operator's blocks into settings, by the schemas in info. It is called once per start, from the
	// plugin's goroutine; an error, which says by itself that settings are wrong, is the message and the cause of [ReasonConfig], and
	// the plugin is not tried again before [Options.OpenFor] has passed. Nil: no settings and no workers.
	Configure func(ctx context.Context, info sdk.PluginInfo) (plugin sdk.Block, workers []sdk.Block, err error)
}

// Options are the optional settings of [Start]. Their zero value is right for use.
type Options struct {
	HostInfo sdk.HostInfo

	// TempDir takes the plugin's private directory (0700, removed when the process is gone), where its socket lives. Its path
	// must be short: a socket's is limited to about 100 bytes. Empty: the first of the system's temporary directory,
	// XDG_RUNTIME_DIR and /tmp that will do.
	TempDir string

	// Logger takes what the plugin logs, and what happens to it. A plugin that writes waits for it. Nil: slog's default.
	Logger *slog.Logger

	StartTimeout     time.Duration // from start to the plugin's info; default 30 s
	ConfigureTimeout time.Duration // default 30 s
	StopGrace        time.Duration // from the end of stdin to SIGTERM, and again to SIGKILL; default 5 s
	DumpGrace        time.Duration // from SIGQUIT to SIGKILL of a hung plugin; default 2 s

	HealthEvery  time.Duration // between two questions for a sign of life, and the time to answer; default 5 s
	HealthMisses int           // so many in a row and the plugin is hung; default 3

	BackoffMin  time.Duration // before the first restart, then doubled, with up to half of it added at random; default 250 ms
	BackoffMax  time.Duration // default 30 s
	StableAfter time.Duration // so long in a session, and earlier exits are forgotten; default 60 s
	OpenAfter   int           // exits within OpenWindow that open the circuit; default 5
	OpenWindow  time.Duration // default 2 min
	OpenFor     time.Duration // between two probes of an open circuit; default 60 s

	// Unchecked lets the plugin judge specs by itself, see [rpc.DialOptions]. It is for tests of plugins.
	Unchecked bool

	// Tests alone set these apart.
	termGrace      time.Duration // from SIGTERM to SIGKILL; default StopGrace
	attributeGrace time.Duration // how long after a failed call the plugin's exit is awaited, to name it as the cause; default 1 s
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	def(&o.StartTimeout, 30*time.Second)
	def(&o.ConfigureTimeout, 30*time.Second)
	def(&o.StopGrace, 5*time.Second)
	def(&o.DumpGrace, 2*time.Second)
	def(&o.HealthEvery, 5*time.Second)
	def(&o.BackoffMin, 250*time.Millisecond)
	def(&o.BackoffMax, 30*time.Second)
	def(&o.StableAfter, time.Minute)
	def(&o.OpenWindow, 2*time.Minute)
	def(&o.OpenFor, time.Minute)
	def(&o.termGrace, o.StopGrace)
	def(&o.attributeGrace, time.Second)
	if o.HealthMisses <= 0 {
		o.HealthMisses = 3
	}
	if o.OpenAfter <= 0 {
		o.OpenAfter = 5
	}
	return o
}

// Bounds that nobody needs to change.
const (
	// pipeGrace is how long after its end a process's pipes are still read: whoever holds them then is not waited for,
	// but what they hold is read.
	pipeGrace = time.Second
	// killGrace is how long SIGKILL may take. A process that outlasts it sits in the kernel, and no wait would help.
	// It may also be the machine that stalls.
	killGrace = 20 * time.Second

	maxLine  = 64 << 10 // of output that is logged whole
	tailSize = 64 << 10 // of stderr that is kept for the report of an exit

	logLinesPerSecond = 200
	logLinesBurst     = 2000
)
