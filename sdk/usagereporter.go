package sdk

import "context"

// UsageReporter is a worker that can measure containers. Named by [FeatureUsageReport].
type UsageReporter interface {
	// ContainerUsage tells what a container uses now. Fields that cannot be measured are zero. A missing container is NotFound of a
	// container.
	ContainerUsage(ctx context.Context, id ContainerID) (Usage, error)
}

// Usage is what a container uses.
type Usage struct {
	CPUNanos    int64 // spent since the container was made
	MemoryBytes int64 // now
	DiskBytes   int64 // now
	PIDs        int64 // now
}

// ContainerUsage asks the worker, and is Unsupported where its type cannot.
func ContainerUsage(ctx context.Context, w Worker, id ContainerID) (Usage, error) {
	r, ok := w.(UsageReporter)
	if !ok {
		return Usage{}, NewUnsupported(FeatureUsageReport)
	}
	return r.ContainerUsage(ctx, id)
}
