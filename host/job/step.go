package job

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// defaultDir is where a step works unless it says otherwise.
const defaultDir = "/work"

// need is a step's wish for what another step does first, with the place that says so.
type need struct {
	by, of string
	output bool // of one of its outputs; else only "after" it
	at     hcl.Range
}

func (r *reader) step(b *hcl.Block) (Step, []need) {
	s := Step{Name: b.Labels[0], Range: b.DefRange}
	c := r.content(b.Body, []string{"with", "runtime", "platform", "tags", "team", "image", "inputs", "shared", "outputs", "caches", "cache_ttl", "after", "env", "dir", "user",
		"privileged", "hermetic", "timeout", "attempts", "priority"}, hcl.BlockHeaderSchema{Type: "limits"},
		hcl.BlockHeaderSchema{Type: "resources"}, hcl.BlockHeaderSchema{Type: "run"})
	r.text(c, "runtime", &s.Runtime)
	r.text(c, "platform", &s.Platform)
	r.text(c, "team", &s.Team)
	r.text(c, "user", &s.User)
	r.flag(c, "privileged", &s.Privileged)
	r.flag(c, "hermetic", &s.Hermetic)
	r.duration(c, "timeout", &s.Timeout)
	r.small(c, "attempts", &s.Attempts)
	r.small(c, "priority", &s.Priority)
	if r.text(c, "dir", &s.Dir) && (!path.IsAbs(s.Dir) || path.Clean(s.Dir) != s.Dir || len(s.Dir) > maxPath) {
		r.wrong(c.Attributes["dir"].Expr.Range(), "Wrong path", "\"dir\" must be absolute and clean, such as %q.", defaultDir)
		s.Dir = "" // for what follows from it
	}
	for _, t := range r.list(c, "tags") {
		if t.text == "" || slices.Contains(s.Tags, t.text) {
			r.wrong(t.at, "Wrong value", "The tag %q is empty or there twice.", t.text)
			continue
		}
		s.Tags = append(s.Tags, t.text)
	}
	for _, p := range r.pairs(c, "env", `{ NAME = "value" }`) {
		r.env(&s, p)
	}
	r.image(&s, c)
	r.outputs(&s, c)
	r.inputs(&s, c)
	r.caches(&s, c)
	needs := r.after(&s, c)
	if attr, ok := c.Attributes["with"]; ok {
		if s.With, ok = r.stepName(attr.Expr); ok {
			needs = append(needs, need{s.Name, s.With, false, attr.Expr.Range()})
		}
	}
	for _, in := range s.Takes() {
		needs = append(needs, need{s.Name, in.Step, true, in.Range})
	}
	slices.SortFunc(needs, func(a, b need) int { return cmp.Compare(a.at.Start.Byte, b.at.Start.Byte) })
	if limits := r.single("limits", c); limits != nil {
		r.limits(&s.Limits, limits)
	}
	if resources := r.single("resources", c); resources != nil {
		r.limits(&s.Resources, resources)
	}
	run := r.single("run", c)
	if run == nil && s.Image != nil {
		return s, needs // the image says what to run
	}
	if run == nil {
		r.wrong(b.DefRange, "Missing run block", "A step needs its command: run { path = \"...\" }.")
		return s, needs
	}
	r.run(&s.Run, run, s.Image != nil)
	return s, needs
}

// single is the only block of its kind, or nil.
func (r *reader) single(what string, c *hcl.BodyContent) *hcl.Block {
	blocks := c.Blocks.OfType(what)
	if len(blocks) == 0 {
		return nil
	}
	for _, b := range blocks[1:] {
		r.wrong(b.DefRange, "Duplicate block", "There is a block %q already at %s; there can be one.", what, place(blocks[0].DefRange))
	}
	return blocks[0]
}

// run takes the command, which an image may have, too.
func (r *reader) run(run *Run, b *hcl.Block, image bool) {
	run.Range = b.DefRange
	c := r.content(b.Body, []string{"path", "args"})
	attr, ok := c.Attributes["path"]
	if !ok && !image {
		r.missing(c, "path")
	}
	if ok {
		run.Path, ok = r.str(attr.Expr, quoted("path"))
	}
	if ok && run.Path == "" {
		r.wrong(attr.Expr.Range(), "Wrong value", "\"path\" is empty; it must name the program to run.")
	}
	for _, a := range r.list(c, "args") {
		run.Args = append(run.Args, a.text)
	}
}

// small takes a whole number from 1 to 100.
func (r *reader) small(c *hcl.BodyContent, name string, into *int) {
	var n int64
	r.number(c, name, "a whole number from 1 to 100", &n, func(string) (int64, bool) { return 0, false }, 1)
	if n > 100 {
		r.wrong(c.Attributes[name].Expr.Range(), "Wrong value", "%q must be a whole number from 1 to 100.", name)
		return
	}
	*into = int(n)
}

func (r *reader) limits(l *Limits, b *hcl.Block) {
	c := r.content(b.Body, []string{"cpu", "memory", "disk", "pids"})
	r.cpu(c, "cpu", &l.CPUMillis)
	r.size(c, "memory", &l.MemoryBytes)
	r.size(c, "disk", &l.DiskBytes)
	r.count(c, "pids", &l.PIDs)
}

func (r *reader) env(s *Step, p pair) {
	if p.key == "" || strings.ContainsAny(p.key, "=\x00") {
		r.wrong(p.at, "Wrong name", "%q cannot be an environment variable: names are not empty and have neither \"=\" nor NUL.", p.key)
		return
	}
	v, ok := r.str(p.value, "The value of "+quoted(p.key))
	if !ok {
		return
	}
	if s.Env == nil {
		s.Env = make(map[string]string)
	}
	s.Env[p.key] = v
}

// image takes a reference to an artifact, or the text of a runtime's own reference.
func (r *reader) image(s *Step, c *hcl.BodyContent) {
	attr, ok := c.Attributes["image"]
	if !ok {
		return
	}
	if _, diags := hcl.AbsTraversalForExpr(attr.Expr); diags.HasErrors() {
		r.text(c, "image", &s.ImageRef)
		return
	}
	if ref, ok := r.ref(attr.Expr, "or the runtime's own reference in quotes"); ok {
		s.Image = &ref
	}
}

func (r *reader) outputs(s *Step, c *hcl.BodyContent) {
	first := make(map[string]hcl.Range)
	for _, o := range r.list(c, "outputs") {
		r.checkName("output", o.text, o.at)
		if at, ok := first[o.text]; ok {
			r.wrong(o.at, "Duplicate output", "The step has an output %q already, at %s.", o.text, place(at))
			continue
		}
		first[o.text] = o.at
		s.Outputs = append(s.Outputs, o.text)
	}
}

// after takes steps by name or by reference.
func (r *reader) after(s *Step, c *hcl.BodyContent) []need {
	attr, ok := c.Attributes["after"]
	if !ok {
		return nil
	}
	exprs, diags := hcl.ExprList(attr.Expr)
	if diags.HasErrors() {
		r.wrong(attr.Expr.Range(), "Wrong type", "\"after\" must be a list of steps, such as [\"build\"] or [step.build].")
		return nil
	}
	var needs []need
	for _, e := range exprs {
		name, ok := r.stepName(e)
		if !ok {
			continue
		}
		if slices.Contains(s.After, name) {
			r.wrong(e.Range(), "Duplicate step", "%q is in the list already.", name)
			continue
		}
		s.After = append(s.After, name)
		needs = append(needs, need{s.Name, name, false, e.Range()})
	}
	return needs
}

// inputs takes two maps from paths to references, of what is copied and of what is shared. No path may be below another one, since one mount would hide part of
// the other.
func (r *reader) inputs(s *Step, c *hcl.BodyContent) {
	dir := s.Dir
	if dir == "" {
		dir = defaultDir
	}
	pairs := r.pairs(c, "inputs", "{ src = input.src }")
	copied := len(pairs)
	pairs = append(pairs, r.pairs(c, "shared", "{ \"/etc/ssl/certs\" = input.certs }")...)
	taken := make(map[string]pair, len(pairs)) // by path in the container
	shared := make(map[string]pair)            // those of them that are
	for i, p := range pairs {
		ref, ok := r.ref(p.value, "without quotes")
		full, why := resolve(dir, p.key)
		if why != "" {
			r.wrong(p.at, "Wrong path", "The input path %.80q %s.", p.key, why)
			continue
		}
		if other, ok := taken[full]; ok {
			r.wrong(p.at, "Duplicate input", "The input paths %q and %q (at %s) are one and the same.", p.key, other.key, place(other.at))
		}
		taken[full] = p
		into := &s.Inputs
		if i >= copied {
			into, shared[full] = &s.Shared, p
		}
		if !ok {
			continue
		}
		if *into == nil {
			*into = make(map[string]Ref)
		}
		(*into)[p.key] = ref
	}
	outputs := make(map[string]string, len(s.Outputs))
	for _, o := range s.Outputs {
		outputs[path.Join(dir, o)] = o
	}
	for full, p := range shared {
		for at, o := range outputs {
			if at == full || within(at, full) {
				r.wrong(p.at, "Overlapping output", "The output %q is at or inside the shared path %q, where nothing can be written.", o, p.key)
			}
		}
	}
	for full, p := range taken {
		for up := path.Dir(full); ; up = path.Dir(up) {
			if other, ok := taken[up]; ok {
				r.wrong(p.at, "Overlapping inputs", "The input path %q is inside the input path %q (at %s).", p.key, other.key, place(other.at))
			}
			if o, ok := outputs[up]; ok {
				r.wrong(p.at, "Overlapping output", "The input path %q is inside the output %q, which would not have it.", p.key, o)
			}
			if up == path.Dir(up) {
				break
			}
		}
	}
}

// maxPath is the longest path that Linux takes.
const maxPath = 4095

// resolve gives an input's path in the container, or why it cannot be one.
func resolve(dir, key string) (full, why string) {
	clean := path.Clean(key)
	switch {
	case key == "":
		return "", `is empty; write "." for the step's own directory`
	case strings.Contains(key, "\x00"):
		return "", "contains a NUL byte"
	case len(key) > maxPath:
		return "", "is too long"
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return "", "leads out of the step's directory; write an absolute path if that is what you want"
	case clean != key:
		return "", "is not clean; write " + quoted(clean)
	}
	if full = key; !path.IsAbs(key) {
		full = path.Join(dir, key)
	}
	if full == "/" {
		return "", "is the whole container; that is what \"image\" is for"
	}
	return full, ""
}
