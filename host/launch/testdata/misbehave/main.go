// Command misbehave is a plugin that does what plugins must not do. Its arguments say what, in order: some break the
// handshake, some come before it, some while it is configured. Without arguments it is a good plugin.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

func main() {
	var whenConfigured []func(cfg sdk.Config) error
	later := func(do func(cfg sdk.Config)) {
		whenConfigured = append(whenConfigured, func(cfg sdk.Config) error { do(cfg); return nil })
	}
	for _, arg := range os.Args[1:] {
		mode, value, _ := strings.Cut(arg, "=")
		switch mode {
		case "exit": // at once, with last words on stderr
			fmt.Fprintln(os.Stderr, "no licence found in /etc/licence")
			os.Exit(3)
		case "exit-if": // the file exists
			if _, err := os.Stat(value); err == nil {
				fmt.Fprintln(os.Stderr, "told to exit by a file")
				os.Exit(4)
			}
		case "hang":
			fmt.Fprintln(os.Stderr, "about to hang")
			block()
		case "print": // in place of a handshake
			fmt.Println(strings.ReplaceAll(value, "{dir}", os.Getenv("PLUGIN_UNIX_SOCKET_DIR")))
			block()
		case "speaks": // a protocol of its own
			l, err := net.Listen("unix", filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "x"))
			if err != nil {
				panic(err)
			}
			fmt.Printf("1|1|unix|%s|grpc|\n", l.Addr())
			for {
				c, err := l.Accept()
				if err != nil {
					panic(err)
				}
				io.WriteString(c, value)
				c.Close()
			}
		case "close-stdout":
			os.Stdout.Close()
			block()
		case "no-cookie":
			for _, kv := range os.Environ() {
				if name, _, _ := strings.Cut(kv, "="); strings.Contains(name, "SLIPWAY") {
					os.Unsetenv(name)
				}
			}
		case "env":
			for _, kv := range os.Environ() {
				fmt.Fprintln(os.Stderr, "env "+kv)
			}
		case "cwd":
			dir, _ := os.Getwd()
			fmt.Fprintln(os.Stderr, "cwd "+dir)
		case "stderr": // raw, a line; \n and \e are understood
			raw(2, strings.NewReplacer(`\n`, "\n", `\e`, "\x1b").Replace(value)+"\n")
		case "long-line":
			raw(2, strings.Repeat("x", 1<<20)+"\nafter the long line\n")
		case "child": // holds every pipe; value: group or session
			child := exec.Command(os.Args[0], "hang")
			child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: value == "session"}
			if err := child.Start(); err != nil {
				panic(err)
			}
			fmt.Fprintf(os.Stderr, "child %d\n", child.Process.Pid)
		case "deaf": // to the end of stdin and to SIGTERM; value stdin: to that only
			if value != "stdin" {
				later(func(sdk.Config) { signal.Ignore(syscall.SIGTERM) })
			}
			r, w, err := os.Pipe()
			if err != nil {
				panic(err)
			}
			defer w.Close()
			os.Stdin = r
		case "litter": // leaves things where its sockets are
			for i, dir := range []string{os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), os.Getenv("TMPDIR"), os.Getenv("HOME")} {
				if err := os.WriteFile(fmt.Sprintf("%s/litter%d", dir, i), []byte("x"), 0o400); err != nil {
					panic(err)
				}
			}
		case "stdout": // while it serves
			later(func(sdk.Config) { raw(1, "stray line\n") })
		case "print-serving":
			later(func(sdk.Config) { fmt.Println(value) })
		case "print-much": // 1 MiB, then a last line; value: stdout or stderr
			later(func(sdk.Config) {
				out := os.Stdout
				if value == "stderr" {
					out = os.Stderr
				}
				for range 1 << 10 {
					fmt.Fprintln(out, strings.Repeat("x", 1<<10-1))
				}
				fmt.Fprintln(os.Stderr, "all is printed")
			})
		case "flood":
			later(func(sdk.Config) {
				for i := range 50_000 {
					raw(2, fmt.Sprintf("line %d of a flood\n", i))
				}
				raw(2, "the flood is over\n")
			})
		case "log":
			later(func(cfg sdk.Config) { cfg.Log.Warn("a word of warning", slog.String("volume", "v1")) })
		case "panic":
			later(func(sdk.Config) { go panic("a goroutine of no caller") })
		case "die-configuring":
			later(func(sdk.Config) {
				raw(2, "cannot bear these settings\n")
				os.Exit(5)
			})
		case "refuse":
			whenConfigured = append(whenConfigured, func(cfg sdk.Config) error {
				return sdk.NewInvalid(sdk.ReasonConfig, "the address is missing")
			})
		default:
			fmt.Fprintf(os.Stderr, "unknown mode %q\n", arg)
			os.Exit(64)
		}
	}
	rpc.Serve(sdk.Plugin{
		Name: "misbehave", Version: "1.2.3",
		Open: func(_ context.Context, cfg sdk.Config) (sdk.Runtime, error) {
			for _, do := range whenConfigured {
				if err := do(cfg); err != nil {
					return nil, err
				}
			}
			return empty{}, nil
		},
	})
}

func raw(fd int, s string) {
	for b := []byte(s); len(b) > 0; {
		n, err := syscall.Write(fd, b)
		if err != nil {
			return
		}
		b = b[n:]
	}
}

// block never returns. Awaiting a signal keeps the Go runtime from calling it a deadlock.
func block() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2)
	select {}
}

// empty is a runtime without workers.
type empty struct{}

func (empty) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	if err := emit(sdk.WorkerEvent{Kind: sdk.WorkerSnapshot}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (empty) Worker(name string) (sdk.Worker, error) {
	return nil, sdk.NewNotFound(sdk.KindWorker, name)
}
