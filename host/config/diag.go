package config

import (
	"bytes"
	"io"
	"os"

	"github.com/hashicorp/hcl/v2"
)

// WriteDiagnostics writes diagnostics of this package or of any other that reads HCL for people: what is wrong, the file and line, the
// line itself, and what to do. Sources are files' contents by name; one that is not there is read again. Values of sensitive
// settings are shown as asterisks in the lines, as far as a schema said which they are. Color asks for escape sequences.
func WriteDiagnostics(w io.Writer, diags hcl.Diagnostics, sources map[string][]byte, color bool) error {
	files := make(map[string]*hcl.File)
	for _, d := range diags {
		if d.Subject == nil || files[d.Subject.Filename] != nil {
			continue
		}
		name := d.Subject.Filename
		src, ok := sources[name]
		if !ok {
			src, _ = os.ReadFile(name) // without it, the line is not shown
		}
		files[name] = &hcl.File{Bytes: bytes.Clone(src)}
	}
	for _, d := range diags {
		h, ok := hcl.DiagnosticExtra[hiding](d)
		if !ok {
			continue
		}
		for _, r := range h.ranges {
			if f := files[r.Filename]; f != nil {
				hide(f.Bytes, r)
			}
		}
	}
	return hcl.NewDiagnosticTextWriter(w, files, 0, color).WriteDiagnostics(diags)
}

func hide(src []byte, r hcl.Range) {
	if !r.CanSliceBytes(src) {
		return
	}
	b := r.SliceBytes(src)
	for i := range b {
		if b[i] != '\n' && b[i] != '\r' {
			b[i] = '*'
		}
	}
}
