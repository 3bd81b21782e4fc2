package main

import "fmt"

// oneStep is a job of one step "only", with a script.
func oneStep(script string) string {
	return fmt.Sprintf(`job "one" {
  step "only" {
    outputs = ["out"]
    run {
      path = "sh"
      args = ["-c", %q]
    }
  }
  output "out" { from = step.only.out }
}
`, script)
}

// onMemory is a configuration with the memory plugin and more lines in its block.
func onMemory(more string) string {
	return fmt.Sprintf(`plugin "memory" {
  command = "slipway-memory"
  %s
}
worker "m" { plugin = "memory" }
`, more)
}
