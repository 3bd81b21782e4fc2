//go:build unix

package main

import (
	"os"
	"testing"
)

// TestSlowIsTold: what is waited for longer than a moment is told, and an interrupt ends the wait.
func TestSlowIsTold(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"mute.hcl": `plugin "mute" {
  command = "sleep"
  args    = ["600"]
}
worker "m" { plugin = "mute" }
`, "deaf.hcl": hostilePlugin("answers nothing", "")})
	r := p.start("-c", "mute.hcl", "exec", "--", "true")
	r.await(`slipway: waiting for plugin "mute" to start`)
	r.signal(os.Interrupt)
	r.signal(os.Interrupt)
	r.wait().wants(codeInterrupted)

	r = p.start("-c", "deaf.hcl", "workers")
	r.await(`slipway: waiting for plugin "memory" to end`)
	r.signal(os.Interrupt)
	r.signal(os.Interrupt)
	r.wait()
}
