package config

import (
	"bytes"
	"io"

	"github.com/hashicorp/hcl/v2"

	"github.com/slipway-run/slipway/internal/printable"
)

// WriteDiagnostics writes diagnostics of this package or of any other that reads HCL for people: what is wrong, the file and line, the
// line itself, and what to do. Sources are files' contents by name; one that is not there is read again. Values of sensitive
// settings are shown as asterisks in the lines, as far as a schema said which they are. Control characters are shown escaped, as \x1b, so that
// no file can speak to the terminal; of a file that is not text, no line is shown. Color asks for escape sequences.
func WriteDiagnostics(w io.Writer, diags hcl.Diagnostics, sources map[string][]byte, color bool) error {
	contents := make(map[string][]byte)
	for _, d := range diags {
		if d.Subject == nil || contents[d.Subject.Filename] != nil {
			continue
		}
		name := d.Subject.Filename
		src, ok := sources[name]
		if !ok {
			src, _ = readFile(name) // without it, the line is not shown
		}
		if notText(src) < 0 {
			contents[name] = bytes.Clone(src)
		}
	}
	for _, d := range diags {
		h, ok := hcl.DiagnosticExtra[hiding](d)
		if !ok {
			continue
		}
		for _, r := range h.ranges {
			hide(contents[r.Filename], r)
		}
	}
	files := make(map[string]*hcl.File)
	visible := make(map[string]*printable.Text)
	for name, src := range contents {
		e := printable.Escape(src)
		visible[name] = e
		files[escapeText(name)] = &hcl.File{Bytes: e.Bytes}
	}
	shown := make(hcl.Diagnostics, 0, len(diags))
	for _, d := range diags {
		shown = append(shown, &hcl.Diagnostic{ // not the values of variables: there are none in what is read here
			Severity: d.Severity, Summary: escapeText(d.Summary), Detail: escapeText(d.Detail),
			Subject: escapeRange(visible, d.Subject), Context: escapeRange(visible, d.Context),
		})
	}
	return hcl.NewDiagnosticTextWriter(w, files, 0, color).WriteDiagnostics(shown)
}

func hide(src []byte, r hcl.Range) {
	if src == nil || !r.CanSliceBytes(src) {
		return
	}
	b := r.SliceBytes(src)
	for i := range b {
		if b[i] != '\n' && b[i] != '\r' {
			b[i] = '*'
		}
	}
}
