//go:build linux

package nomadtest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// sleeper is a task that does nothing until it is ended.
func sleeper(driver string) Task {
	if driver == Exec {
		return Task{Driver: Exec, User: ContainerRoot, Command: "/bin/sleep", Args: []string{"1000"}}
	}
	return Task{Driver: RawExec, Command: "/bin/sleep", Args: []string{"1000"}}
}

func TestAgent(t *testing.T) {
	ctx := limited(t)
	begun := time.Now()
	a := Start(t, Options{})
	t.Logf("agent ready after %v", time.Since(begun))
	for _, driver := range []string{RawExec, Exec} {
		t.Run(driver, func(t *testing.T) {
			if driver == Exec && !a.HasExec() {
				lacking(t, errors.New("the exec driver needs root and control groups"))
			}
			begun := time.Now()
			alloc, err := a.Run(ctx, sleeper(driver))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("task running after %v", time.Since(begun))
			var out, errs bytes.Buffer
			code, err := a.Exec(ctx, alloc, TaskName, []string{"/bin/sh", "-c", "cat; echo oops >&2; exit 5"}, strings.NewReader("to and fro\n"), &out, &errs)
			if err != nil || code != 5 {
				t.Fatalf("exec: code %d, error %v; want 5", code, err)
			}
			if out.String() != "to and fro\n" || errs.String() != "oops\n" {
				t.Errorf("exec: stdout %q, stderr %q", &out, &errs)
			}
		})
	}
}
