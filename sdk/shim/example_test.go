package shim_test

import (
	"context"
	"errors"
	"io"
	"os/exec"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// dockerExec runs a command as docker does: all that a worker needs to have processes.
func dockerExec(ctx context.Context, container sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, "docker", append([]string{"exec", "-i", string(container)}, argv...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil // the command's own affair
	}
	return err
}

// worker gets its processes from the driver; containers and volumes it does itself.
type worker struct {
	*shim.Driver
	// and CreateVolume, CreateContainer and so on
}

func (w worker) DestroyContainer(ctx context.Context, id sdk.ContainerID) error {
	if err := exec.CommandContext(ctx, "docker", "rm", "-f", string(id)).Run(); err != nil {
		return sdk.NewUnavailable(err, "container %q: docker rm: %v", id, err)
	}
	w.Forget(id)
	return nil
}

func Example() {
	w := worker{Driver: shim.New(dockerExec, shim.Options{})}
	defer w.Close()
	ctx := context.Background()

	// CreateContainer ends with this, where "shim serve /slipway/scratch" is the container's command.
	if _, err := w.Ready(ctx, "builder-1"); err != nil {
		return
	}
	_ = w.StartProcess(ctx, "builder-1", sdk.ProcessSpec{ID: "compile", Token: sdk.NewToken(), Path: "make"})
}
