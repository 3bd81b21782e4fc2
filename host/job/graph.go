package job

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// ref takes a reference to an artifact from the syntax. Hint is about quotes.
func (r *reader) ref(expr hcl.Expression, hint string) (Ref, bool) {
	names, ok := traversal(expr)
	switch {
	case ok && len(names) == 2 && names[0] == "input":
		return Ref{Input: names[1], Range: expr.Range()}, true
	case ok && len(names) == 3 && names[0] == "step":
		return Ref{Step: names[1], Output: names[2], Range: expr.Range()}, true
	}
	r.wrong(expr.Range(), "Wrong reference", "This names no artifact. Write input.NAME or step.NAME.OUTPUT, %s.", hint)
	return Ref{}, false
}

// stepName takes "name" or step.name.
func (r *reader) stepName(expr hcl.Expression) (string, bool) {
	names, ok := traversal(expr)
	if !ok {
		return r.str(expr, "A step's name")
	}
	if len(names) == 2 && names[0] == "step" {
		return names[1], true
	}
	r.wrong(expr.Range(), "Wrong reference", "This names no step. Write step.NAME, or the name in quotes.")
	return "", false
}

// traversal gives the parts of a.b.c; false for anything else.
func traversal(expr hcl.Expression) ([]string, bool) {
	t, diags := hcl.AbsTraversalForExpr(expr)
	if diags.HasErrors() {
		return nil, false
	}
	var names []string
	for _, part := range t {
		switch p := part.(type) {
		case hcl.TraverseRoot:
			names = append(names, p.Name)
		case hcl.TraverseAttr:
			names = append(names, p.Name)
		default:
			return nil, false
		}
	}
	return names, true
}

// link checks every reference against what there is, and orders the steps.
func (r *reader) link(j *Job, needs []need) {
	l := linker{reader: r, outputs: make(map[string][]string), used: make(map[string]bool)}
	for _, in := range j.Inputs {
		l.inputs = append(l.inputs, in.Name)
	}
	for _, s := range j.Steps {
		l.steps = append(l.steps, s.Name)
		l.outputs[s.Name] = s.Outputs
	}
	for _, s := range j.Steps {
		for _, ref := range s.Takes() {
			l.check(ref, s.Name)
		}
	}
	for _, o := range j.Outputs {
		if o.From.Step != "" {
			l.check(o.From, "")
		}
	}
	for _, in := range j.Inputs {
		if !l.used[in.Name] && !r.diags.HasErrors() { // after an error, it may be what the error is about
			r.diags = append(r.diags, &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "Unused input",
				Detail: fmt.Sprintf("No step takes input.%s.", in.Name), Subject: in.Range.Ptr()})
		}
	}
	l.order(j, l.known(needs))
}

type linker struct {
	*reader
	inputs, steps []string
	outputs       map[string][]string // by step
	used          map[string]bool     // inputs
}

// check is for a reference that the step by makes.
func (l *linker) check(ref Ref, by string) {
	if ref.Input != "" {
		l.used[ref.Input] = true
		if !slices.Contains(l.inputs, ref.Input) {
			l.wrong(ref.Range, "Unknown input", "The job has no input %q.%s", ref.Input, didYouMean(ref.Input, l.inputs))
		}
		return
	}
	if ref.Step == by {
		l.wrong(ref.Range, "Step needs itself", "The step %q cannot take its own output.", by)
		return
	}
	if !slices.Contains(l.steps, ref.Step) {
		l.unknownStep(ref.Step, ref.Range)
		return
	}
	if outputs := l.outputs[ref.Step]; !slices.Contains(outputs, ref.Output) {
		l.wrong(ref.Range, "Unknown output", "The step %q has no output %q.%s", ref.Step, ref.Output, didYouMean(ref.Output, outputs))
	}
}

func (l *linker) unknownStep(name string, at hcl.Range) {
	l.wrong(at, "Unknown step", "The job has no step %q.%s", name, didYouMean(name, l.steps))
}

// known keeps the needs that are between two steps, by the step that has them, and complains of "after" and "with" where they name anything else.
func (l *linker) known(needs []need) map[string][]need {
	by := make(map[string][]need)
	for _, n := range needs {
		switch {
		case n.of == "": // an input of the job
		case n.of != n.by && slices.Contains(l.steps, n.of):
			by[n.by] = append(by[n.by], n)
		case n.output:
		case n.of == n.by:
			l.wrong(n.at, "Step needs itself", "The step %q cannot wait for itself.", n.by)
		default:
			l.unknownStep(n.of, n.at)
		}
	}
	return by
}

// order sorts the steps, and complains of cycles: one for each knot of steps that need each other.
func (l *linker) order(j *Job, needs map[string][]need) {
	index := make(map[string]int, len(j.Steps))
	for i, s := range j.Steps {
		index[s.Name] = i
	}
	waits := make([]int, len(j.Steps))
	freed := make([][]int, len(j.Steps))
	for i, s := range j.Steps {
		for _, n := range needs[s.Name] {
			waits[i]++
			freed[index[n.of]] = append(freed[index[n.of]], i)
		}
	}
	var ready []int // in the order of the file
	for i, n := range waits {
		if n == 0 {
			ready = append(ready, i)
		}
	}
	done := make([]bool, len(j.Steps))
	sorted := make([]Step, 0, len(j.Steps))
	finish := func(i int) {
		done[i] = true
		sorted = append(sorted, j.Steps[i])
		for _, f := range freed[i] {
			if waits[f]--; waits[f] == 0 && !done[f] {
				at, _ := slices.BinarySearch(ready, f)
				ready = slices.Insert(ready, at, f)
			}
		}
	}
	for {
		for len(ready) > 0 {
			i := ready[0]
			ready = ready[1:]
			if !done[i] { // as part of a cycle
				finish(i)
			}
		}
		start := slices.Index(done, false)
		if start < 0 {
			break
		}
		cycle := l.cycle(j.Steps[start].Name, needs, func(name string) bool { return !done[index[name]] })
		for _, n := range cycle {
			finish(index[n.by])
		}
	}
	j.Steps = sorted
}

// cycle follows the needs from a step, all of whose waiting ones lead to a cycle, and complains of it. It gives the cycle's needs, each by
// the step that the one before is of.
func (l *linker) cycle(from string, needs map[string][]need, waiting func(string) bool) []need {
	var path []need
	seen := make(map[string]int)
	for name := from; ; {
		if at, ok := seen[name]; ok {
			path = path[at:]
			break
		}
		seen[name] = len(path)
		i := slices.IndexFunc(needs[name], func(n need) bool { return waiting(n.of) })
		path = append(path, needs[name][i])
		name = needs[name][i].of
	}
	names, why := make([]string, 0, len(path)+1), make([]string, 0, len(path))
	for _, n := range path {
		names = append(names, n.by)
		why = append(why, fmt.Sprintf("%s needs %s at %s", n.by, n.of, place(n.at)))
	}
	names = append(names, path[0].by)
	l.wrong(path[0].at, "Cycle", "These steps wait for each other: %s (%s).", strings.Join(names, " -> "), strings.Join(why, "; "))
	return path
}
