package job

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Load reads a job file. It runs nothing. All that is wrong is found at once; the job is nil if anything is, and not if there are
// only warnings.
func Load(file string) (*Job, hcl.Diagnostics) {
	src, err := readFile(file)
	if err != nil {
		return nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Cannot read the job", Detail: err.Error() + "."}}
	}
	return Parse(src, file)
}

// Parse is Load for a file's content.
func Parse(src []byte, filename string) (*Job, hcl.Diagnostics) {
	var r reader
	if why := bound(src); why != "" {
		r.wrong(hcl.Range{Filename: filename, Start: hcl.InitialPos, End: hcl.InitialPos}, "File out of bounds", "%s", why)
		return nil, r.diags
	}
	if i := notText(src); i >= 0 {
		at := hcl.Pos{Line: bytes.Count(src[:i], []byte("\n")) + 1, Column: 1, Byte: i}
		r.wrong(hcl.Range{Filename: filename, Start: at, End: at}, "Not a text file", "Byte %d of the file is 0x%02x, which text in UTF-8 does not have there. Is this the right file? If so, save it in UTF-8.", i+1, src[i])
		return nil, r.diags
	}
	file, diags := hclsyntax.ParseConfig(src, filename, hcl.InitialPos)
	r.diags = diags
	if diags.HasErrors() {
		explainTemplates(src, diags)
		return nil, r.finish()
	}
	j := r.job(file.Body)
	if r.diags.HasErrors() {
		return nil, r.finish()
	}
	j.File, j.source = filename, src
	return j, r.finish()
}

// explainTemplates tells those who wrote a shell's ${...} in a string why HCL does not understand it: whatever HCL says to the first error,
// a ${ before it is the likely cause.
func explainTemplates(src []byte, diags hcl.Diagnostics) {
	d := diags[0]
	if d.Subject == nil || !d.Subject.CanSliceBytes(src) {
		return
	}
	text := src[:d.Subject.End.Byte]
	i := bytes.LastIndex(text, []byte("${"))
	if i < 0 || i > 0 && text[i-1] == '$' {
		return
	}
	if bytes.IndexByte(text[i:], '\n') < 0 {
		d.Detail = howToEscape
		return
	}
	d.Detail += fmt.Sprintf(" The ${ in line %d may be the cause. %s", bytes.Count(text[:i], []byte("\n"))+1, howToEscape)
}

func (r *reader) finish() hcl.Diagnostics {
	slices.SortStableFunc(r.diags, func(a, b *hcl.Diagnostic) int {
		if a.Subject == nil || b.Subject == nil {
			return 0
		}
		return cmp.Or(cmp.Compare(a.Subject.Start.Byte, b.Subject.Start.Byte), cmp.Compare(a.Detail, b.Detail))
	})
	return r.diags
}

// job reads the file's one job.
func (r *reader) job(body hcl.Body) *Job {
	content := r.content(body, nil, hcl.BlockHeaderSchema{Type: "job", LabelNames: []string{"name"}})
	if len(content.Blocks) == 0 {
		r.wrong(content.MissingItemRange, "No job", "A job file has one block: job \"name\" { ... }.")
		return nil
	}
	first := content.Blocks[0]
	for _, b := range content.Blocks[1:] {
		r.wrong(b.DefRange, "Second job", "A job file has one job, and there is one already at %s; put this one in a file of its own.", place(first.DefRange))
	}
	j := &Job{Name: first.Labels[0]}
	r.checkName("job", j.Name, first.LabelRanges[0])

	named := []string{"name"}
	inner := r.content(first.Body, nil, hcl.BlockHeaderSchema{Type: "input", LabelNames: named},
		hcl.BlockHeaderSchema{Type: "step", LabelNames: named}, hcl.BlockHeaderSchema{Type: "output", LabelNames: named})
	blocks := inner.Blocks.ByType()
	for _, b := range r.unique("input", blocks["input"]) {
		in := Input{Name: b.Labels[0], Range: b.DefRange}
		c := r.content(b.Body, []string{"doc"})
		r.text(c, "doc", &in.Doc)
		j.Inputs = append(j.Inputs, in)
	}
	var needs []need
	for _, b := range r.unique("step", blocks["step"]) {
		s, n := r.step(b)
		j.Steps = append(j.Steps, s)
		needs = append(needs, n...)
	}
	for _, b := range r.unique("output", blocks["output"]) {
		j.Outputs = append(j.Outputs, r.output(b))
	}
	if len(blocks["step"]) == 0 {
		r.wrong(first.DefRange, "No steps", "A job needs at least one block: step \"name\" { ... }.")
	}
	r.link(j, needs)
	return j
}

func (r *reader) output(b *hcl.Block) Output {
	o := Output{Name: b.Labels[0], Range: b.DefRange}
	c := r.content(b.Body, []string{"from"})
	attr, ok := c.Attributes["from"]
	if !ok {
		r.missing(c, "from")
		return o
	}
	ref, ok := r.ref(attr.Expr, "without quotes")
	if ok && ref.Input != "" {
		r.wrong(attr.Expr.Range(), "Wrong reference", "An output is a step's: write step.NAME.OUTPUT. Whoever runs the job has %s already.", ref)
		return o
	}
	o.From = ref
	return o
}

// unique checks the names of blocks, and gives back those that have one of their own.
func (r *reader) unique(what string, blocks []*hcl.Block) []*hcl.Block {
	first := make(map[string]hcl.Range)
	var kept []*hcl.Block
	for _, b := range blocks {
		name := b.Labels[0]
		r.checkName(what, name, b.LabelRanges[0])
		if at, ok := first[name]; ok {
			r.wrong(b.DefRange, "Duplicate name", "There is a block %s %q already at %s.", what, name, place(at))
			continue
		}
		first[name] = b.DefRange
		kept = append(kept, b)
	}
	return kept
}

func (r *reader) checkName(what, name string, at hcl.Range) {
	ok := name != "" && name[0] >= 'a' && name[0] <= 'z'
	for _, c := range []byte(name) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if !ok {
		r.wrong(at, "Wrong name", "The name %q of the %s must begin with a-z and have only a-z, 0-9, \"_\" and \"-\".", name, what)
	}
}
