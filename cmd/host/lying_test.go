package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/slipway-run/slipway/plugins/memory"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// lyingArg has this test's program serve as a plugin: memory's, but for the ends of processes, which are those of the next argument.
const lyingArg = "lying-plugin"

func serveLies(text string) {
	var ends []sdk.Exit
	if err := json.Unmarshal([]byte(text), &ends); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	p := memory.Plugin()
	open := p.Open
	p.Open = func(ctx context.Context, c sdk.Config) (sdk.Runtime, error) {
		rt, err := open(ctx, c)
		if err != nil {
			return nil, err
		}
		return &lying{rt, ends}, nil
	}
	rpc.Serve(p)
}

type lying struct {
	sdk.Runtime
	ends []sdk.Exit
}

func (l *lying) Worker(name string) (sdk.Worker, error) {
	w, err := l.Runtime.Worker(name)
	if err != nil {
		return nil, err
	}
	return &lyingWorker{w, l}, nil
}

type lyingWorker struct {
	sdk.Worker
	of *lying
}

func (w *lyingWorker) FollowProcess(ctx context.Context, c sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
	tell := f.Exit
	f.Exit = func(sdk.Exit) (err error) {
		for _, e := range w.of.ends {
			err = errors.Join(err, tell(e))
		}
		return err
	}
	return w.Worker.FollowProcess(ctx, c, p, from, f)
}

// TestToldEnds: no end that a plugin makes up makes slipway end with 0 but that of a success, and what it says then is what its records say.
func TestToldEnds(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ends      string
		exec, run int
		says      string // by logs
	}{
		"256":                {`[{"Code": 256, "Reason": "exited"}]`, codeExecFailed, codeLost, "lost"},
		"-256":               {`[{"Code": -256, "Reason": "exited"}]`, codeExecFailed, codeLost, "lost"},
		"2 to the 32nd":      {`[{"Code": 4294967296, "Reason": "exited"}]`, codeExecFailed, codeLost, "lost"},
		"0 with a signal":    {`[{"Code": 0, "Signal": "KILL", "Reason": "signalled"}]`, codeExecFailed, codeLost, "lost"},
		"3, then 0":          {`[{"Code": 3, "Reason": "exited"}, {"Code": 0, "Reason": "exited"}]`, 3, codeStepFailed, "exit code 3"},
		"0, then 3":          {`[{"Code": 0, "Reason": "exited"}, {"Code": 3, "Reason": "exited"}]`, 0, 0, "exit code 0"},
		"none, and then a 0": {`[{"Code": 256, "Reason": "exited"}, {"Code": 0, "Reason": "exited"}]`, codeExecFailed, codeLost, "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(map[string]string{"j.hcl": oneStep("echo made > out/made"), "lies.hcl": fmt.Sprintf(`plugin "memory" {
  command = %q
  args    = [%q, %q]
}
worker "m" { plugin = "memory" }
`, self, lyingArg, c.ends)})
			r := p.run("-c", "lies.hcl", "exec", "--", "true").wants(c.exec)
			if c.exec == codeExecFailed {
				r.says("its plugin told an end that is none")
			}
			p.run("-c", "lies.hcl", "run", "j.hcl", "--state", "state", "--id", "a", "-o", "out=out").wants(c.run)
			if _, err := os.Stat(p.work + "/out"); (err == nil) != (c.run == 0) {
				t.Errorf("the output: %v", err)
			}
			p.run("logs", "a", "--state", "state").wants(0).says("only - " + c.says)
		})
	}
}
