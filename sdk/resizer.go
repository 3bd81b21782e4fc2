package sdk

import "context"

// Resizer is a worker whose processes' terminals can change size. Named by [FeatureTTYResize].
type Resizer interface {
	// ResizeProcess sets the size of a process's terminal; zeros mean what they mean in [TTY]. A process without a terminal is
	// FailedPrecondition; for one that has exited nothing is done, and the error is nil.
	ResizeProcess(ctx context.Context, container ContainerID, process ProcessID, size TTY) error
}

// ResizeProcess asks the worker, and is Unsupported where its type cannot.
func ResizeProcess(ctx context.Context, w Worker, container ContainerID, process ProcessID, size TTY) error {
	r, ok := w.(Resizer)
	if !ok {
		return NewUnsupported(FeatureTTYResize)
	}
	return r.ResizeProcess(ctx, container, process, size)
}
