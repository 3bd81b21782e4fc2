package shim_test

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// worker gets its processes from the driver; containers and volumes it does itself.
type worker struct {
	*shim.Driver
	ending sync.Map // of containers that are being destroyed
	// and CreateVolume, CreateContainer and so on
}

// exec runs a command as docker does: all that a worker needs to have processes.
func (w *worker) exec(ctx context.Context, container sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if _, ending := w.ending.Load(container); ending {
		return sdk.NewNotFound(sdk.KindContainer, string(container))
	}
	cmd := exec.CommandContext(ctx, "docker", append([]string{"exec", "-i", string(container)}, argv...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.WaitDelay = time.Second // whoever else holds its output is not waited for
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil // the command's own affair
	}
	return err
}

func (w *worker) DestroyContainer(ctx context.Context, id sdk.ContainerID) error {
	w.ending.Store(id, true)
	if err := exec.CommandContext(ctx, "docker", "rm", "-f", string(id)).Run(); err != nil {
		return sdk.NewUnavailable(err, "container %q: docker rm: %v", id, err)
	}
	w.Forget(id)
	return nil
}

func Example() {
	w := new(worker)
	w.Driver = shim.New(w.exec, shim.Options{})
	defer w.Close()
	ctx := context.Background()

	// CreateContainer ends with this, where "shim serve /slipway/scratch" is the container's command.
	if _, err := w.Ready(ctx, "builder-1"); err != nil {
		return
	}
	_ = w.StartProcess(ctx, "builder-1", sdk.ProcessSpec{ID: "compile", Token: sdk.NewToken(), Path: "make"})
}
