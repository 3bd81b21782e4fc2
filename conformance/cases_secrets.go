package conformance

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// secretCases check where the values of variables go beside the process.
func secretCases() []Case {
	return []Case{{
		ID: "P38-env-kept-nowhere", Title: "no value of a variable is in what a plugin writes to stderr, nor in the files below the directories that its settings name", Promises: []string{"13e"}, Level: Must, Profile: Recovery,
		Env: []Requirement{EnvCrash, EnvLocal}, Run: runEnvKeptNowhere,
		Doc: "Logs are read, copied and kept by more people than secrets are meant for. Catches a plugin that logs what it starts, and one that writes it down to find it again after a restart. Looked at is what it has said by the time of kill -9.",
	}}
}

func runEnvKeptNowhere(ctx context.Context, c *C) {
	o, _ := c.ownStatus(ctx)
	secret := "hush-" + string(sdk.NewToken())
	with := func(s *sdk.ProcessSpec) { s.Env = append(s.Env, "CF_SECRET="+secret) }
	id := c.Container(ctx)
	c.WantOutput(c.Exec(ctx, id, c.Commands.Env("CF_OTHER"), with), "unset\n", "", "a process with a secret that it does not tell")
	running := c.Started(ctx, id, c.Commands.Sleep(), with)
	c.WantClass(c.W.StartProcess(ctx, id, c.Spec(Cmd{Path: "/no/such/program"}, with)), sdk.Invalid, "what cannot start is Invalid", "starting what is not there")
	c.OK(c.W.SignalProcess(ctx, id, running, sdk.TERM), "sending TERM")
	c.Follow(ctx, id, running)
	for _, dir := range c.settledDirectories() {
		file, err := holds(dir, secret)
		if err != nil {
			c.Logf("what is below %s was not seen: %v", dir, err)
		}
		if file != "" {
			c.Errorf("who reads a disk, or its copy, must find no secret there", "the value of a variable is in %s", file)
		}
	}
	if o.inst.Said == nil {
		c.NotObservable("nobody sees what the plugin writes to stderr")
	}
	o.Crash(ctx) // then all that it said is there
	for line := range strings.Lines(o.inst.Said()) {
		if strings.Contains(line, secret) {
			c.Errorf("who reads a log must find no secret there", "the value of a variable is in the plugin's stderr: %s", strings.TrimSpace(strings.ReplaceAll(line, secret, "…")))
		}
	}
}

// settledDirectories are the absolute paths among the settings of the target's program.
func (c *C) settledDirectories() (dirs []string) {
	p := c.suite.target.Program
	if p == nil {
		return nil
	}
	var look func(v any)
	look = func(v any) {
		switch v := v.(type) {
		case string:
			top, _, _ := strings.Cut(strings.TrimPrefix(filepath.Clean(v), "/"), "/")
			if filepath.IsAbs(v) && !slices.Contains([]string{"", "dev", "proc", "sys"}, top) { // which are not the plugin's own
				dirs = append(dirs, filepath.Clean(v))
			}
		case []any:
			for _, e := range v {
				look(e)
			}
		case map[string]any:
			for _, e := range v {
				look(e)
			}
		}
	}
	for _, b := range append([]sdk.Block{p.Plugin}, p.Workers...) {
		var values any
		if json.Unmarshal(b.Values, &values) == nil {
			look(values)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
