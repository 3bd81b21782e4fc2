package rpc_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// build makes the test plugin's binary: a real main of a few lines.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "slipway-test")
	if err := testkit.Build(bin, "./internal/testplugin"); err != nil {
		t.Fatal(err)
	}
	return bin
}

// child is a plugin's process that a test started itself, with a stdin of its own.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr bytes.Buffer
	dir    string // where its socket is
	exited chan error
}

func start(t *testing.T, bin string) *child {
	t.Helper()
	dir, err := os.MkdirTemp("", "rpc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &child{cmd: exec.Command(bin), dir: dir, exited: make(chan error, 1)}
	h := rpc.Handshake()
	c.cmd.Env = []string{h.MagicCookieKey + "=" + h.MagicCookieValue, "PLUGIN_UNIX_SOCKET_DIR=" + dir, "PLUGIN_PROTOCOL_VERSIONS=1"}
	c.cmd.Stderr = &c.stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdout = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// address reads the handshake.
func (c *child) address(t *testing.T) unixAddr {
	t.Helper()
	line, err := c.stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("no handshake: %v", err)
	}
	parts := strings.Split(strings.TrimSpace(line), "|")
	if len(parts) < 5 || parts[0] != "1" || parts[1] != "1" || parts[2] != "unix" || parts[4] != "grpc" {
		t.Fatalf("handshake is %q", line)
	}
	return unixAddr(parts[3])
}

type unixAddr string

func (unixAddr) Network() string  { return "unix" }
func (a unixAddr) String() string { return string(a) }

// end waits for the process, and says what else it wrote on stdout.
func (c *child) end(t *testing.T) (stray string) {
	t.Helper()
	rest := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(c.stdout)
		rest <- string(b)
		c.exited <- c.cmd.Wait()
	}()
	select {
	case stray = <-rest:
	case <-testkit.Context(t).Done():
		_ = c.cmd.Process.Kill()
		t.Fatal("the plugin did not end")
	}
	if err := <-c.exited; err != nil {
		t.Errorf("the plugin ended with %v\n%s", err, c.stderr.String())
	}
	if left, _ := os.ReadDir(c.dir); len(left) != 0 {
		t.Errorf("the plugin left %v behind", left)
	}
	return stray
}

func TestPluginProcess(t *testing.T) {
	bin := build(t)

	t.Run("through go-plugin", func(t *testing.T) { throughGoPlugin(t, bin) })

	t.Run("by hand", func(t *testing.T) {
		cmd := exec.Command(bin)
		cmd.Env = []string{"TMPDIR=" + t.TempDir()}
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() == 0 {
			t.Errorf("ended with %v", err)
		}
		if stdout.Len() != 0 || !strings.Contains(stderr.String(), "plugin \"test\"") {
			t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
		}
		if left, _ := os.ReadDir(strings.TrimPrefix(cmd.Env[0], "TMPDIR=")); len(left) != 0 {
			t.Errorf("left %v behind", left)
		}
	})

	for name, stop := range map[string]func(*child) error{
		"stdin ends": func(c *child) error { return c.stdin.Close() },
		"SIGTERM":    func(c *child) error { return c.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, bin)
			client := dial(t, c.address(t), rpc.DialOptions{})
			if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil { // means nothing to a plugin
				t.Fatal(err)
			}
			w := configured(t, client)
			events, ended := make(chan sdk.WorkerEvent, 1), make(chan error, 1)
			go func() {
				ended <- client.Runtime().Workers(t.Context(), func(e sdk.WorkerEvent) error { events <- e; return nil })
			}()
			if e := <-events; e.Kind != sdk.WorkerSnapshot || len(e.Workers) != 1 {
				t.Errorf("workers: %+v", e)
			}
			if err := w.CreateVolume(t.Context(), sdk.VolumeSpec{ID: "v", Token: "t"}); err != nil {
				t.Error(err)
			}
			if err := stop(c); err != nil {
				t.Fatal(err)
			}
			if stray := c.end(t); stray != "" {
				t.Errorf("stdout after the handshake: %q", stray)
			}
			if err := <-ended; !isGone(err) {
				t.Errorf("Workers got %v", err)
			}
			checkLog(t, c.stderr.String())
		})
	}
}

func configured(t *testing.T, client *rpc.Client) sdk.Worker {
	t.Helper()
	ctx := t.Context()
	info, err := client.Info(ctx, sdk.HostInfo{Version: "9", Installation: "i"})
	if err != nil || info.Name != "test" || info.Version != "1.2.3" {
		t.Fatalf("Info: %+v, %v", info, err)
	}
	w, err := client.Runtime().Worker("w")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Status(ctx); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("Status before Configure: %v", err)
	}
	if err := client.Configure(ctx, sdk.Block{Name: "test"}, []sdk.Block{{Name: "w", Values: []byte(`{}`)}}); err != nil {
		t.Fatal(err)
	}
	if err := client.Configure(ctx, sdk.Block{Name: "test"}, nil); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("a second Configure: %v", err)
	}
	return w
}

// checkLog wants every line to be one that a strict reader of hclog's format takes, and the plugin's own among them.
func checkLog(t *testing.T, stderr string) {
	t.Helper()
	own := false
	for line := range strings.Lines(stderr) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Errorf("not JSON: %q", line)
			continue
		}
		for _, key := range []string{"@level", "@message", "@timestamp", "@module"} {
			if _, ok := fields[key].(string); !ok {
				t.Errorf("%s is not a string in %q", key, line)
			}
		}
		own = own || fields["@message"] == "opened" && fields["workers"] == 1.0
	}
	if !own {
		t.Errorf("the plugin's own line is missing in:\n%s", stderr)
	}
}

// throughGoPlugin starts the binary as any host built on go-plugin does.
func throughGoPlugin(t *testing.T, bin string) {
	// go-plugin gives the child our own stdin, which must stay open.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin := os.Stdin
	os.Stdin = r
	defer func() { os.Stdin = stdin; _ = r.Close(); _ = w.Close() }()

	cmd := exec.Command(bin)
	host := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  rpc.Handshake(),
		Plugins:          rpc.Plugins(),
		Cmd:              cmd,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		Logger:           hclog.NewNullLogger(),
	})
	addr, err := host.Start()
	if err != nil {
		t.Fatal(err)
	}
	client := dial(t, addr, rpc.DialOptions{})
	worker := configured(t, client)
	ctx := testkit.Context(t)
	if err := worker.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: "t"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := worker.StartProcess(ctx, "c", sdk.ProcessSpec{ID: "p", Token: "t", Path: "echo", Args: []string{"hello", "host"}}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = worker.FollowProcess(ctx, "c", "p", 0, sdk.Follow{Output: func(records []sdk.Record) error {
		for _, r := range records {
			out.Write(r.Data)
		}
		return nil
	}})
	if err != nil || out.String() != "hello host\n" {
		t.Errorf("followed %q, %v", out.String(), err)
	}
	if err := worker.StartProcess(ctx, "c", sdk.ProcessSpec{ID: "bad", Token: "t", Path: "panic"}); !errors.Is(err, sdk.ReasonPanic) {
		t.Errorf("got %v", err)
	}
	if err := client.Health(ctx); err != nil {
		t.Errorf("after the panic: %v", err)
	}
	host.Kill()
	if err := client.Health(ctx); !isGone(err) {
		t.Errorf("after the kill: %v", err)
	}
}
