package launch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/slipway-run/slipway/sdk/rpc"
)

// handshake is one start of a process through go-plugin, which knows the environment that a plugin expects and the line
// that it answers with. go-plugin sees that line and the exit, nothing else: stderr is read here, and no pipe is awaited.
type handshake struct {
	dir   string // the plugin's private one
	start func(env map[string]string) (*process, error)

	started chan struct{} // closed when proc and err are set, before run returns
	proc    *process      // nil: it could not be started
	err     error
}

// run starts the process and gives the address at which it serves. It returns soon after the process's end, so that killing it
// is the way to interrupt it. On an error proc may be running; what is wrong with it is for the caller to see.
func (h *handshake) run() (net.Addr, error) {
	defer func() {
		if h.proc == nil {
			close(h.started)
		}
	}()
	config := &plugin.ClientConfig{ // single use: go-plugin changes it
		HandshakeConfig:  rpc.Handshake(),
		Plugins:          rpc.Plugins(),
		RunnerFunc:       h.runner,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: h.dir},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		StartTimeout:     24 * time.Hour, // the caller has its own, and knows whose time is up
		Logger:           hclog.NewNullLogger(),
	}
	return plugin.NewClient(config).Start()
}

// runner is given the handshake's variables in cmd.
func (h *handshake) runner(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
	env := map[string]string{}
	for _, kv := range cmd.Env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	env[plugin.EnvUnixSocketDir] = h.dir // go-plugin's own is one level down, and sockets' paths are short
	return &pluginRunner{h: h, env: env}, nil
}

// pluginRunner is go-plugin's view of a process.
type pluginRunner struct {
	h   *handshake
	env map[string]string
}

func (r *pluginRunner) Start(context.Context) error {
	r.h.proc, r.h.err = r.h.start(r.env)
	if r.h.err != nil {
		return r.h.err
	}
	close(r.h.started)
	return nil
}

// Wait returns at the process's end, whoever still holds its pipes.
func (r *pluginRunner) Wait(context.Context) error {
	<-r.h.proc.exited
	return nil
}

// Kill is for the caller of run to do.
func (r *pluginRunner) Kill(context.Context) error { return nil }

func (r *pluginRunner) Stdout() io.ReadCloser                            { return &firstLine{out: r.h.proc.out} }
func (r *pluginRunner) Stderr() io.ReadCloser                            { return io.NopCloser(bytes.NewReader(nil)) }
func (r *pluginRunner) Name() string                                     { return "plugin" }
func (r *pluginRunner) ID() string                                       { return strconv.Itoa(r.h.proc.pid) }
func (r *pluginRunner) Diagnose(context.Context) string                  { return "" }
func (r *pluginRunner) HostToPlugin(n, a string) (string, string, error) { return n, a, nil }

// PluginToHost refuses addresses that are not the plugin's own: its host must not be led to others' sockets.
func (r *pluginRunner) PluginToHost(network, address string) (string, string, error) {
	if network == "tcp" && runtime.GOOS == "windows" {
		if host, _, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsLoopback() {
			return network, address, nil
		}
	}
	inside, err := filepath.Rel(r.h.proc.dir.path, address)
	if network != "unix" || err != nil || !filepath.IsLocal(inside) {
		return "", "", fmt.Errorf("it serves at %.200q, which is no unix socket in the directory it was given", network+" "+address)
	}
	return network, address, nil
}

// firstLine is a reader of the handshake's line alone.
type firstLine struct {
	out  *output
	rest *bytes.Reader
}

func (f *firstLine) Read(p []byte) (int, error) {
	if f.rest == nil {
		<-f.out.first
		f.rest = bytes.NewReader(append(bytes.Clone(f.out.line), '\n'))
		if len(f.out.line) == 0 {
			f.rest = bytes.NewReader(nil)
		}
	}
	return f.rest.Read(p)
}

func (f *firstLine) Close() error { return nil }

// checkLine says what is wrong with the line that a plugin printed first; nil: it is for go-plugin to judge.
func checkLine(line []byte) *Error {
	fields := strings.Split(strings.TrimSpace(string(line)), "|")
	core, err := strconv.Atoi(fields[0])
	if len(fields) < 4 || err != nil {
		return &Error{Reason: ReasonHandshake, Message: fmt.Sprintf(
			"the first line on its stdout is no handshake of a plugin: %s, want \"%d|%d|unix|PATH|grpc|\"; is it a Slipway plugin, and does nothing in it print before it serves?",
			quoted(line), plugin.CoreProtocolVersion, rpc.Handshake().ProtocolVersion)}
	}
	if core != plugin.CoreProtocolVersion {
		return &Error{Reason: ReasonVersion, Message: fmt.Sprintf(
			"it speaks go-plugin's core protocol %d, this host speaks %d; rebuild it with a current SDK", core, plugin.CoreProtocolVersion)}
	}
	want := int(rpc.Handshake().ProtocolVersion)
	got, err := strconv.Atoi(fields[1])
	if err == nil && got == want {
		return nil
	}
	advice := "upgrade the plugin, or rebuild it with a newer SDK"
	if err == nil && got > want {
		advice = "upgrade this host, or use an older release of the plugin"
	}
	return &Error{Reason: ReasonVersion, Message: fmt.Sprintf(
		"it speaks version %.20q of the plugin contract, this host speaks %d; %s", fields[1], want, advice)}
}

func quoted(line []byte) string { return fmt.Sprintf("%.200q", clean(string(line))) }
