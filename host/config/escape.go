package config

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/slipway-run/slipway/internal/printable"
)

func escapeText(s string) string { return printable.Lines(s) }

func escapeRange(visible map[string]*printable.Text, r *hcl.Range) *hcl.Range {
	if r == nil {
		return nil
	}
	moved := *r
	moved.Filename = escapeText(r.Filename)
	if e := visible[r.Filename]; e != nil {
		moved.Start.Byte, moved.End.Byte = e.Offset(r.Start.Byte), e.Offset(r.End.Byte)
	}
	return &moved
}
