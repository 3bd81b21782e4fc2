// Package job reads job files: named steps, what goes into each and what comes out, and the graph that follows from it.
//
// It yields plain values with the places they came from. A reference such as step.count.counts is taken from the syntax and
// never evaluated. Running a job is not done here.
package job

import (
	"time"

	"github.com/hashicorp/hcl/v2"
)

// Job is one file. Steps are in an order in which each comes after all that it needs; of those that are free to go first, the one that the file
// names first.
type Job struct {
	Name    string
	File    string `digest:"-"`
	Inputs  []Input
	Steps   []Step
	Outputs []Output

	source []byte
}

// Source is the text that the job was read from, for those who read it elsewhere; none if it was read from nothing. It is not to be changed.
func (j *Job) Source() []byte { return j.source }

// Input is a tree that whoever runs the job brings.
type Input struct {
	Name  string
	Doc   string `digest:"-"`
	Range hcl.Range
}

// Step is one command in one fresh container.
type Step struct {
	Name     string
	Inputs   map[string]Ref // by path: relative ones are below Dir
	Shared   map[string]Ref `json:",omitempty"` // by path, as Inputs: mounted read-only as they are, in place of copies, such as certificates
	Outputs  []string       // names; each is a directory of that name below Dir
	Caches   []string       // paths that the next run of the step finds as this one left them: relative ones are below Dir
	CacheTTL time.Duration  `json:",omitempty"` // how long each of them is kept after its last use; zero: as the host says
	After    []string       // steps that must have succeeded first, besides those that Inputs name

	With     string `json:",omitempty"` // the step on whose worker it runs, after it has succeeded; empty: any
	Runtime  string // a plugin's name; empty: any
	Platform string // empty: any
	Tags     []string
	Team     string

	Image      *Ref   // an artifact with rootfs/ and metadata.json
	ImageRef   string // or the runtime's own reference
	Env        map[string]string
	Dir        string // absolute; empty: /work
	User       string
	Privileged bool
	Hermetic   bool
	Limits     Limits
	Timeout    time.Duration // of the command; zero: none
	Attempts   int           `json:",omitempty"` // that are made at most while the step is lost; 0 is 1
	Priority   int           `json:",omitempty"` // in the queue for a place, the highest first
	Resources  Limits        `json:",omitzero"`  // what it needs to itself; a worker promises no more than it has
	Run        Run
	Range      hcl.Range
}

// Run is the command of a step. Without a Path it is that of the step's Image, with Args in place of the image's own.
type Run struct {
	Path  string
	Args  []string
	Range hcl.Range
}

// Limits bound a step's container. Zero fields are unlimited.
type Limits struct {
	CPUMillis   int64
	MemoryBytes int64
	DiskBytes   int64
	PIDs        int64
}

// Ref names an artifact: an input of the job, or an output of a step.
type Ref struct {
	Input  string // either this
	Step   string // or both of these
	Output string
	Range  hcl.Range
}

// String gives the reference as the file has it.
func (r Ref) String() string {
	if r.Input != "" {
		return "input." + r.Input
	}
	return "step." + r.Step + "." + r.Output
}

// Output is an artifact that whoever runs the job takes away.
type Output struct {
	Name  string
	From  Ref
	Range hcl.Range
}

// Takes lists what goes into a step, in no order: its inputs, what it shares, and its image.
func (s *Step) Takes() (refs []Ref) {
	for _, all := range []map[string]Ref{s.Inputs, s.Shared} {
		for _, r := range all {
			refs = append(refs, r)
		}
	}
	if s.Image != nil {
		refs = append(refs, *s.Image)
	}
	return refs
}

// Needs lists the steps that must have succeeded before this one, each once, in the order of the job's steps.
func (j *Job) Needs(s *Step) []string {
	want := make(map[string]bool)
	for _, r := range s.Takes() {
		want[r.Step] = true
	}
	for _, name := range s.After {
		want[name] = true
	}
	want[s.With] = true
	var needs []string
	for i := range j.Steps {
		if want[j.Steps[i].Name] {
			needs = append(needs, j.Steps[i].Name)
		}
	}
	return needs
}
