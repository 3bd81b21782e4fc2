package mutant

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/sdk"
)

// Base is a good plugin that mutants stand in front of. Each mutant is a worker of it, and all share its process.
type Base struct {
	Name    string // for reports
	Command []string
	Plugin  json.RawMessage                           // settings of its block; may be nil
	Worker  func(name string) json.RawMessage         // settings of a worker's block; nil: none
	Ready   func(ctx context.Context) (func(), error) // what has to be there first, and how to end it; nil: nothing

	// Commands are what cases run in its containers; they are asked for when the base is needed. Nil: conformance.Shell. If there are none
	// after all, the base is left out.
	Commands func(ctx context.Context) (conformance.Commands, error)
	Shell    bool // Commands, which are the probe, are for the cases that need them; all others are run by a shell
	Bare     bool // as in conformance.Target
	Outlived bool // its process may be killed: by its containers it is outlived, or it is volatile and comes last
	Extras   bool // its workers can do more than its own: see [ByNameWithExtras]
}

// standing is a base whose process runs.
type standing struct {
	Base
	self []string // that runs Serve, before its arguments
	log  *slog.Logger

	commands conformance.Commands
	inst     *conformance.Instance
	end      func()
}

// open gives nil where the base has to be left out.
func (b Base) open(ctx context.Context, self []string, log *slog.Logger, workers []string) (*standing, error) {
	s := &standing{Base: b, self: self, log: log, end: func() {}}
	if b.Commands != nil {
		var err error
		if s.commands, err = b.Commands(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", b.Name, err)
		}
		if s.commands == nil {
			return nil, nil
		}
	}
	if b.Ready != nil {
		end, err := b.Ready(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Name, err)
		}
		s.end = end
	}
	inst, err := s.program(workers).Open(ctx)
	if err != nil {
		s.end()
		return nil, fmt.Errorf("%s: %w", b.Name, err)
	}
	s.inst = inst
	return s, nil
}

func (s *standing) close() {
	s.inst.Close()
	s.end()
}

// A process has many workers, and starts beside others. These are for what hangs.
const (
	startTimeout = openTimeout
	healthMisses = 60
)

// program runs the base behind mutants, one for each worker.
func (s *standing) program(workers []string) conformance.Target {
	return conformance.Command(s.brokenBy(ByName, workers))
}

func (s *standing) brokenBy(broken string, workers []string) conformance.Program {
	if s.Extras && broken == ByName {
		broken = ByNameWithExtras
		workers = append(workers[:len(workers):len(workers)], Beside)
	}
	p := conformance.Program{
		Path: s.self[0], Args: slices.Concat(s.self[1:], []string{broken, "--"}, s.Command),
		Plugin: sdk.Block{Name: "base", Values: s.Plugin}, Launch: launch.Options{Logger: s.log, StartTimeout: startTimeout, ConfigureTimeout: startTimeout, HealthMisses: healthMisses},
	}
	for _, name := range workers {
		block := sdk.Block{Name: name}
		if s.Worker != nil {
			block.Values = s.Worker(name)
		}
		p.Workers = append(p.Workers, block)
	}
	return p
}

// target is one worker, broken as its name says. The run gets the process that all share, and each case that asks for an instance of its
// own gets a process of its own.
func (s *standing) target(name string) conformance.Target {
	m, ok := Find(name)
	broken := func(rt sdk.Runtime) sdk.Runtime {
		if ok && m.Near {
			return m.near(rt)
		}
		return rt
	}
	commands, probe := s.commands, conformance.Probe{}
	if own, ok := commands.(conformance.Probe); ok && s.Shell {
		commands, probe = conformance.Shell{}, own
	}
	program := s.brokenBy(ByName, []string{name})
	if m.wire != nil {
		program = s.brokenBy(name, []string{name})
	}
	var begun atomic.Bool
	return conformance.Target{
		Name: name + " on " + s.Name, Worker: name, Peer: Beside, Local: true,
		Commands: commands, Probe: probe, Bare: s.Bare, CanCrash: s.Outlived, Program: &program, Given: s.given(), Away: s.away(name),
		Open: func(ctx context.Context) (*conformance.Instance, error) {
			if begun.CompareAndSwap(false, true) && !m.Alone {
				return &conformance.Instance{Runtime: broken(s.inst.Runtime), Close: func() {}, PID: s.inst.PID, Said: s.inst.Said}, nil
			}
			inst, err := s.program([]string{name}).Open(ctx)
			if err != nil {
				return nil, err
			}
			return &conformance.Instance{Runtime: broken(inst.Runtime), Close: inst.Close, PID: inst.PID, Said: inst.Said, Crash: func(ctx context.Context) (sdk.Runtime, error) {
				rt, err := inst.Crash(ctx)
				if err != nil {
					return nil, err
				}
				return broken(rt), nil
			}}, nil
		},
	}
}

// alive tells whether the process that all share still answers.
func (s *standing) alive(ctx context.Context) error {
	w, err := s.inst.Runtime.Worker(None)
	if err != nil {
		return err
	}
	_, err = w.Status(ctx)
	return err
}
