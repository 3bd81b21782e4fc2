package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/sdk"
)

// suiteFlags say what to run on what.
type suiteFlags struct {
	targetFlags
	profiles   []string
	only, skip []string
	seed       uint64
	budget     time.Duration
}

// targetFlags say what is tested, and how the cases are run on it. A report keeps them.
type targetFlags struct {
	short          bool
	bare, shell    bool
	probe          string
	timeScale      float64
	expected       string
	pluginSettings string
	workerSettings string
	worker         string
	peer           string
	peerSettings   string
	given          conformance.Given
	env            []string
}

const (
	defaultWorker = "suite"
	defaultBudget = 30 * time.Minute
)

func (t *targetFlags) bind(f *pflag.FlagSet) {
	f.BoolVar(&t.short, "short", false, "make the loops that look for rare faults ten times shorter")
	f.BoolVar(&t.bare, "bare", false, "the programs that the cases run are part of the plugin, as memory's shell is, and need no files in a container's root")
	f.StringVar(&t.probe, "probe", "", "run the suite's own program in containers, not a shell of theirs: a `file or platform`, of "+
		strings.Join(conformance.ProbePlatforms(), ", ")+", for which the go command builds it")
	f.BoolVar(&t.shell, "shell", false, "with --probe: containers have a shell as well, which runs what needs no probe")
	f.Float64Var(&t.timeScale, "time-scale", 1, "`factor` for the time that each case may take; above 1 also for the 10s that the plugin has to start and the 2m to be configured")
	f.StringVar(&t.expected, "expected", "", `JSON `+"`file`"+` of failures that are known: a list of {"case", "reason", "until"}; an unexpected pass fails`)
	f.StringVar(&t.pluginSettings, "plugin-settings", "", "JSON `file` with the settings of the plugin's block")
	f.StringVar(&t.workerSettings, "worker-settings", "", "JSON `file` with the settings of the worker's block")
	f.StringVar(&t.worker, "worker", defaultWorker, "`name` of the worker's block")
	f.StringVar(&t.peer, "peer", "", "`name` of a second worker's block, which the profile p2p streams to and from; for plugins whose blocks are one worker each, in one zone")
	f.StringVar(&t.peerSettings, "peer-settings", "", "with --peer: JSON `file` with the settings of its block; default those of the first worker")
	f.StringVar(&t.given.ImageRef, "image-ref", "", "for plugins that name image.ref: a `reference` that the worker's runtime has an image by; with --image-file")
	f.StringVar(&t.given.ImageFile, "image-file", "", "with --image-ref: absolute `path` of a file in that image, which containers without it lack")
	f.StringVar(&t.given.Import, "import", "", "for plugins that name volume.import: a `path` on the worker that may be imported, of a tree that holds something and may be lost")
	f.StringArrayVarP(&t.env, "env", "e", nil, "`NAME=VALUE` for the plugin, which gets of this environment nothing else; NAME alone takes the value from here; may be repeated")
}

func (s *suiteFlags) bind(f *pflag.FlagSet) {
	s.targetFlags.bind(f)
	f.StringSliceVar(&s.profiles, "profile", nil, "`profiles` to run: "+strings.Join(profileNames(), ", ")+"; default all but stress")
	f.StringSliceVar(&s.only, "only", nil, "`patterns` of case ids to run, such as 'P*', or numbers of cases, such as P01")
	f.StringSliceVar(&s.skip, "skip", nil, "`patterns` of case ids to leave out")
	f.Uint64Var(&s.seed, "seed", 0, "`number` that repeats an earlier run's random choices")
	f.DurationVar(&s.budget, "budget", defaultBudget, "`time` after which no case begins or goes on any more")
}

// args are the flags and arguments that test the same again. Of variables only the names are kept, for values may be secret.
func (t *targetFlags) args(plugin []string) []string {
	args := []string{plugin[0]}
	for name, set := range map[string]bool{"short": t.short, "bare": t.bare, "shell": t.shell} {
		if set {
			args = append(args, "--"+name)
		}
	}
	for name, value := range map[string]string{"probe": t.probe, "expected": t.expected, "plugin-settings": t.pluginSettings, "worker-settings": t.workerSettings,
		"peer": t.peer, "peer-settings": t.peerSettings, "image-ref": t.given.ImageRef, "image-file": t.given.ImageFile, "import": t.given.Import} {
		if value != "" {
			args = append(args, "--"+name+"="+value)
		}
	}
	if t.worker != defaultWorker {
		args = append(args, "--worker="+t.worker)
	}
	if t.timeScale != 1 {
		args = append(args, fmt.Sprintf("--time-scale=%v", t.timeScale))
	}
	for _, e := range t.env {
		name, _, _ := strings.Cut(e, "=")
		args = append(args, "--env="+name)
	}
	slices.Sort(args[1:])
	if len(plugin) > 1 {
		args = append(append(args, "--"), plugin[1:]...)
	}
	return args
}

// again is the command line that runs one case again, or all of them where that one alone shows nothing.
func again(args []string, id string, seed uint64) string {
	words := []string{"slipway", "conformance", "run", "--only=" + id, fmt.Sprintf("--seed=%d", seed)}
	if id == conformance.NothingLeft().ID {
		words = slices.Delete(words, 3, 4)
	}
	words = append(words, args...)
	for i, w := range words {
		words[i] = quoteWord(w)
	}
	return strings.Join(words, " ")
}

// quoteWord makes a word of a shell's command line.
func quoteWord(w string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=+./,:@%", r)
	}
	if w != "" && !strings.ContainsFunc(w, func(r rune) bool { return !plain(r) }) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// suite gives what the flags and arguments say. A probe that has to be built is.
func (s *suiteFlags) suite(ctx context.Context, plugin []string, log *slog.Logger) (conformance.Target, conformance.Options, error) {
	opts := conformance.Options{Only: s.only, Skip: s.skip, Short: s.short, Seed: s.seed, Budget: s.budget, TimeScale: s.timeScale}
	if s.timeScale <= 0 || s.budget <= 0 {
		return conformance.Target{}, opts, usageError{errors.New("--time-scale and --budget must be more than zero")}
	}
	var err error
	if opts.Profiles, err = profilesOf(s.profiles); err != nil {
		return conformance.Target{}, opts, err
	}
	if opts.Expected, err = expectations(s.expected); err != nil {
		return conformance.Target{}, opts, err
	}
	target, err := s.target(ctx, plugin, log)
	return target, opts, err
}

func (t *targetFlags) target(ctx context.Context, plugin []string, log *slog.Logger) (conformance.Target, error) {
	var none conformance.Target
	env, err := suiteEnvironment(t.env)
	if err != nil {
		return none, err
	}
	pluginSettings, err := settings(t.pluginSettings)
	if err != nil {
		return none, err
	}
	workerSettings, err := settings(t.workerSettings)
	if err != nil {
		return none, err
	}
	workers := []sdk.Block{{Name: t.worker, Values: workerSettings}}
	switch {
	case t.peer == "" && t.peerSettings != "":
		return none, usageError{errors.New("--peer-settings: it goes with --peer, which names the second worker")}
	case t.peer == t.worker:
		return none, usageError{fmt.Errorf("--peer %s: the first worker has that name; give another", t.peer)}
	case t.peerSettings != "":
		values, err := settings(t.peerSettings)
		if err != nil {
			return none, err
		}
		workers = append(workers, sdk.Block{Name: t.peer, Values: values})
	case t.peer != "":
		workers = append(workers, sdk.Block{Name: t.peer, Values: workerSettings})
	}
	target := conformance.Command(conformance.Program{
		Path: plugin[0], Args: plugin[1:], Env: env, Plugin: sdk.Block{Name: "suite", Values: pluginSettings},
		Workers: workers, Launch: launch.Options{Logger: log},
	})
	if (t.given.ImageRef == "") != (t.given.ImageFile == "") || t.given.ImageFile != "" && !strings.HasPrefix(t.given.ImageFile, "/") {
		return none, usageError{errors.New("--image-ref and --image-file: they go together, and the file's path is absolute")}
	}
	target.Bare, target.Given = t.bare, t.given
	if t.peer != "" {
		target.Worker, target.Peer = t.worker, t.peer
	}
	switch {
	case t.probe == "" && t.shell:
		return none, usageError{errors.New("--shell: it goes with --probe, without which a shell runs everything")}
	case t.probe == "":
		return target, nil
	}
	probe, err := loadProbe(ctx, t.probe)
	if t.shell {
		target.Probe = probe
	} else {
		target.Commands = probe
	}
	return target, err
}

// loadProbe reads the probe from a file, or builds it for a platform.
func loadProbe(ctx context.Context, what string) (probe conformance.Probe, err error) {
	if !slices.Contains(conformance.ProbePlatforms(), what) {
		if probe, err = conformance.LoadProbe(what); err != nil {
			return probe, usageError{fmt.Errorf("--probe %s: %w; or give one of the platforms %s", what, err, strings.Join(conformance.ProbePlatforms(), ", "))}
		}
		return probe, nil
	}
	dir, err := os.MkdirTemp("", "slipway-probe-")
	if err != nil {
		return probe, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file, err := conformance.BuildProbe(ctx, dir, what)
	if err != nil {
		return probe, err
	}
	return conformance.LoadProbe(file)
}

// suiteEnvironment takes values that are not given from this process's own environment.
func suiteEnvironment(env []string) (map[string]string, error) {
	full := slices.Clone(env)
	for i, e := range full {
		if e == "" || strings.Contains(e, "=") {
			continue
		}
		value, ok := os.LookupEnv(e)
		if !ok {
			return nil, usageError{fmt.Errorf("-e %s: it has no value here: set it, or give -e %s=VALUE", e, e)}
		}
		full[i] = e + "=" + value
	}
	return environment(full)
}

// settings reads a block's settings.
func settings(file string) (json.RawMessage, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, usageError{err}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, usageError{fmt.Errorf("%s: want a JSON object: %w", file, err)}
	}
	return text, nil
}

func expectations(file string) ([]conformance.Expectation, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, usageError{err}
	}
	defer f.Close()
	expected, err := conformance.ReadExpectations(f, conformance.Cases())
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", file, err)}
	}
	return expected, nil
}

func profileNames() []string {
	var names []string
	for _, p := range conformance.Profiles() {
		names = append(names, string(p))
	}
	return names
}

// profilesOf gives the profiles of these names.
func profilesOf(names []string) ([]conformance.Profile, error) {
	var profiles []conformance.Profile
	for _, p := range names {
		if !slices.Contains(profileNames(), p) {
			return nil, usageError{fmt.Errorf("--profile %s: the profiles are %s", p, strings.Join(profileNames(), ", "))}
		}
		profiles = append(profiles, conformance.Profile(p))
	}
	return profiles, nil
}
