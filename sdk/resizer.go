package sdk

import "context"

// Resizer is a worker whose processes' terminals can change size. Named by [FeatureTTYResize].
type Resizer interface {
	// ResizeProcess sets the size of a process's terminal. A process without one is FailedPrecondition; one that has exited is
	// nil.
	ResizeProcess(ctx context.Context, container ContainerID, process ProcessID, size TTY) error
}

// ResizeProcess asks the worker, and is Unsupported where it cannot.
func ResizeProcess(ctx context.Context, w Worker, container ContainerID, process ProcessID, size TTY) error {
	r, ok := w.(Resizer)
	if !ok {
		return NewUnsupported(FeatureTTYResize)
	}
	return r.ResizeProcess(ctx, container, process, size)
}
