package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
)

// Build makes a program of a package as make does: without cgo, so that it needs nothing of the root that it runs in, and so that what the
// compiler has made for one program of a module serves all the others. Flags are those of go build; with -race the program has cgo, which that needs.
func Build(program, pkg string, flags ...string) error {
	return build(program, pkg, slices.Concat([]string{"build", "-ldflags", "-s -w"}, flags))
}

// BuildTests makes a program of a package's tests in the same way.
func BuildTests(program, pkg string) error {
	return build(program, pkg, []string{"test", "-c", "-vet=off", "-ldflags", "-s -w"})
}

func build(program, pkg string, args []string) error {
	cmd := exec.Command("go", slices.Concat(args, []string{"-o", program, pkg})...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if slices.Contains(args, "-race") {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
