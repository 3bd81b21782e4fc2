//go:build linux

package store

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
)

const usage = `slipway-store keeps the volumes of one Nomad node. The Nomad plugin runs it; people do not.

  slipway-store serve --dir DIR --listen HOST:PORT   keep volumes below DIR, which is a directory of the node
  slipway-store hello                                print how to talk to the store of this task
  slipway-store tunnel                               connect stdin and stdout with it
  slipway-store version
`

// runEnv is the variable of a task with a directory that is its own, in memory, and cannot be read through Nomad's API.
const runEnv = "NOMAD_SECRETS_DIR"

// Command is the whole program. It returns the exit status: 2 for a wrong command line.
func Command(ctx context.Context, version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := command(ctx, version, args, stdin, stdout, stderr)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stderr, usage)
		return 2
	}
	fmt.Fprintln(stderr, "slipway-store:", err)
	return 1
}

func command(ctx context.Context, version string, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("slipway-store "+verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	run := flags.String("run", os.Getenv(runEnv), "private directory of the task")
	o := Options{Version: version, Log: slog.New(slog.NewTextHandler(stderr, nil))}
	if verb == "serve" {
		flags.StringVar(&o.Dir, "dir", "", "directory of the node")
		flags.StringVar(&o.Listen, "listen", "", "HOST:PORT")
		flags.StringVar(&o.Zone, "zone", "", "stores of one zone send volumes to each other; empty: this one does not")
		flags.Func("advertise", "HOST:PORT where others reach it; repeat it, or give several with commas between them", func(s string) error {
			o.Advertise = append(o.Advertise, strings.FieldsFunc(s, func(r rune) bool { return r == ',' })...)
			return nil
		})
	}
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return errors.Join(flag.ErrHelp, err)
	}
	if verb == "version" {
		_, err := fmt.Fprintln(stdout, "slipway-store", version, "protocol", storenet.Protocol)
		return err
	}
	if verb != "serve" && verb != "hello" && verb != "tunnel" {
		return flag.ErrHelp
	}
	if *run == "" {
		return fmt.Errorf("where the store's own directory is must be said: set --run, or %s, as Nomad does", runEnv)
	}
	o.Run = *run
	switch verb {
	case "hello":
		text, err := os.ReadFile(filepath.Join(*run, storenet.HelloFile))
		if err != nil {
			return fmt.Errorf("no store has begun to serve in this task: %w", err)
		}
		_, err = stdout.Write(text)
		return err
	case "tunnel":
		return tunnel(ctx, *run, stdin, stdout)
	}
	if o.Dir == "" || o.Listen == "" {
		return flag.ErrHelp
	}
	return Serve(ctx, o)
}

// tunnel is a connection with the store through a command.
func tunnel(ctx context.Context, run string, stdin io.Reader, stdout io.Writer) error {
	text, err := os.ReadFile(filepath.Join(run, storenet.HelloFile))
	if err != nil {
		return fmt.Errorf("no store has begun to serve in this task: %w", err)
	}
	h, err := storenet.ReadHello(text)
	if err != nil {
		return err
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", h.Local)
	if err != nil {
		return err
	}
	defer c.Close()
	return storenet.Tunnel(ctx, c, stdin, stdout)
}
