// Package root gives a keeper, and all that it starts, a root of their own where the runtime gives none: a mount namespace in which volumes are mounted at any
// path and the machine sees nothing of it. It isolates nothing.
package root

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// Plan is a root to be made, as package shim's Root.
type Plan struct {
	Image  string
	Mounts []Mount
}

// Mount is a directory that is mounted at a path of the root.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Decode reads what an argument says. It is base64, for some runtimes replace what looks like a variable.
func Decode(arg string) (Plan, error) {
	text, err := base64.StdEncoding.DecodeString(arg)
	if err != nil {
		return Plan{}, fmt.Errorf("the root's plan: %w", err)
	}
	var p Plan
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Plan{}, fmt.Errorf("the root's plan: %w", err)
	}
	return p, nil
}
