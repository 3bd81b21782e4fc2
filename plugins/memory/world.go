package memory

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// World serves a runtime on a unix socket until ctx ends: containers and processes then outlive plugins and hosts, which
// come to it by the plugin's setting "world". It answers on ready once it can be reached. The socket is for its user alone;
// one that a dead world left behind is replaced, that of a living one refused. At the end neither the socket nor the lock beside it is left.
func World(ctx context.Context, socket string, workers []string, opts Options, ready io.Writer) (err error) {
	if len(workers) == 0 {
		return errors.New("a world needs the name of a worker")
	}
	unlock, err := lock(socket + ".lock")
	if err != nil {
		return fmt.Errorf("world at %s: %w", socket, err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	listener, err := listen(socket)
	if err != nil {
		return fmt.Errorf("world at %s: %w", socket, err)
	}
	defer os.Remove(socket)
	info, err := pluginInfo()
	if err != nil {
		return err
	}
	runtime := New(workers, opts)
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer cancel()
		err = errors.Join(err, runtime.Close(ending))
	}()
	fmt.Fprintf(ready, "world at unix:%s with workers %q\n", socket, workers)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return rpc.ServeOn(ctx, listener, info, runtime, rpc.ServeOptions{Log: log})
}

func pluginInfo() (sdk.PluginInfo, error) {
	p := Plugin()
	pluginSchema, err := sdk.SchemaOf(p.Config)
	if err != nil {
		return sdk.PluginInfo{}, err
	}
	workerSchema, err := sdk.SchemaOf(p.Worker)
	return sdk.PluginInfo{
		Name: p.Name, Version: p.Version, SDK: sdk.Version, PluginSchema: pluginSchema, WorkerSchema: workerSchema,
	}, err
}

// listen makes the socket in a private directory first, so that nobody else ever finds it with wider permissions, and then
// moves it to its place.
func listen(socket string) (net.Listener, error) {
	old, err := os.Lstat(socket)
	if err == nil && old.Mode().Type() != fs.ModeSocket {
		return nil, errors.New("there is something else at this path")
	}
	private, err := os.MkdirTemp(filepath.Dir(socket), ".w")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(private)
	hidden := filepath.Join(private, "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: hidden, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	if err = os.Chmod(hidden, 0o600); err == nil {
		err = os.Rename(hidden, socket)
	}
	if err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}

// worldFlags is the command line of a world.
type worldFlags struct {
	*flag.FlagSet
	socket  string
	workers []string
	memory  sdk.Bytes

	programMemory sdk.Bytes
	programs      string
	noShell       bool
	zone          string
}

func newWorldFlags() *worldFlags {
	f := &worldFlags{FlagSet: flag.NewFlagSet("slipway-memory world", flag.ContinueOnError), memory: DefaultMemory, programMemory: DefaultProgramMemory}
	f.StringVar(&f.socket, "socket", "", "`path` of the unix socket to serve on")
	f.Func("worker", "`name` of a worker; may be given again", func(s string) error {
		f.workers = append(f.workers, s)
		return nil
	})
	f.Func("memory", "limit of the data in all volumes, a `size` such as 64MiB (default 1GiB)", func(s string) (err error) {
		f.memory, err = sdk.ParseBytes(s)
		return err
	})
	f.Func("program-memory", "limit of the memory of all running WASI programs, a `size` such as 64MiB (default 2GiB)", func(s string) (err error) {
		f.programMemory, err = sdk.ParseBytes(s)
		return err
	})
	f.StringVar(&f.programs, "programs", programsCompiled, "`how` WASI programs are executed: compiled, interpreted or off")
	f.BoolVar(&f.noShell, "no-shell", false, "run no scripts and utilities, WASI programs only")
	f.StringVar(&f.zone, "zone", "", "`name` of the zone in which the workers send volumes straight to each other")
	f.Usage = func() {
		fmt.Fprintf(f.Output(), "usage: %s\n", worldUsage)
		f.PrintDefaults()
	}
	return f
}

const worldUsage = "slipway-memory world --socket PATH --worker NAME [--worker NAME] [--memory SIZE] [further settings]"

// WriteUsage tells people what the program is and what they can start by hand, which is a world.
func WriteUsage(w io.Writer) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, `slipway-memory is the memory runtime as a Slipway plugin; a host starts it. Name it in a host's configuration:

    plugin "memory" {
      command = "slipway-memory"
      config { memory = "4GiB" }
    }

By hand it starts a world, whose containers outlive plugins and hosts:

    %s

`, worldUsage)
	flags := newWorldFlags()
	flags.SetOutput(&text)
	flags.PrintDefaults()
	text.WriteString(`
Plugins come to a world by config { world = "unix:PATH" } in the plugin block, where PATH is absolute.
`)
	_, err := text.WriteTo(w)
	return err
}

// WorldCommand is the command line of a world: --socket PATH, --worker NAME as often as needed, and the settings of the plugin as
// flags. It confines the whole process to the socket's directory, for good.
func WorldCommand(ctx context.Context, args []string) error {
	flags := newWorldFlags()
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.socket == "" || len(flags.workers) == 0 || flags.NArg() > 0 {
		return errors.New("usage: " + worldUsage)
	}
	opts, err := flags.options()
	if err != nil {
		return err
	}
	socket, err := filepath.Abs(flags.socket)
	if err != nil {
		return err
	}
	if err := Confine(filepath.Dir(socket)); err != nil {
		fmt.Fprintln(os.Stderr, "slipway-memory world:", err)
	}
	return World(ctx, socket, flags.workers, opts, os.Stdout)
}

// options are the flags as the plugin's settings, which have the same limits.
func (f *worldFlags) options() (Options, error) {
	c := pluginConfig{Shell: !f.noShell, Programs: f.programs, Memory: f.memory, ProgramMemory: f.programMemory}
	opts := c.options()
	opts.Workers = make(map[string]WorkerOptions, len(f.workers))
	for _, name := range f.workers {
		opts.Workers[name] = WorkerOptions{Zone: f.zone}
	}
	return opts, c.check("world")
}
