package sdk

import (
	"context"
	"io"
)

// Checked puts before a runtime what the contract says of every worker alike, so that its author need not. A call whose context has ended does
// nothing and returns the context's error. A request that is wrong in itself, whatever there is on the worker, is Invalid: ids, specs,
// paths, positions, signals, tickets. What the type of a worker cannot do is Unsupported, and no Status names it. All else is r's to judge.
//
// rpc.Serve and the like do this by themselves. It is for those who call a runtime in their own process, as tests do. Its workers implement every
// optional interface, whatever r's implement; they may be checked again without harm.
func Checked(r Runtime) Runtime { return checkedRuntime{r} }

type checkedRuntime struct{ Runtime }

func (c checkedRuntime) Workers(ctx context.Context, emit func(WorkerEvent) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.Runtime.Workers(ctx, emit)
}

func (c checkedRuntime) Worker(name string) (Worker, error) {
	w, err := c.Runtime.Worker(name)
	if err != nil {
		return nil, err
	}
	return checkedWorker{w}, nil
}

// checkedWorker has the methods that need no check from the worker itself: Close alone.
type checkedWorker struct{ Worker }

// first gives the error of the context, which comes before all others, or the first of those.
func first(ctx context.Context, errs ...error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkVolume(id VolumeID) error       { return CheckID(KindVolume, string(id)) }
func checkContainer(id ContainerID) error { return CheckID(KindContainer, string(id)) }
func checkProcess(id ProcessID) error     { return CheckID(KindProcess, string(id)) }

func (c checkedWorker) Status(ctx context.Context) (Status, error) {
	if err := ctx.Err(); err != nil {
		return Status{}, err
	}
	s, err := c.Worker.Status(ctx)
	if err != nil {
		return Status{}, err
	}
	return StripFeatures(c.Worker, s), nil
}

func (c checkedWorker) CreateVolume(ctx context.Context, spec VolumeSpec) error {
	if err := first(ctx, spec.Validate()); err != nil {
		return err
	}
	return c.Worker.CreateVolume(ctx, spec)
}

func (c checkedWorker) SealVolume(ctx context.Context, id VolumeID) error {
	if err := first(ctx, checkVolume(id)); err != nil {
		return err
	}
	return c.Worker.SealVolume(ctx, id)
}

func (c checkedWorker) ListVolumes(ctx context.Context, filter Filter, emit func(VolumeInfo) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.Worker.ListVolumes(ctx, filter, emit)
}

func (c checkedWorker) DestroyVolume(ctx context.Context, id VolumeID) error {
	if err := first(ctx, checkVolume(id)); err != nil {
		return err
	}
	return c.Worker.DestroyVolume(ctx, id)
}

func (c checkedWorker) StreamIn(ctx context.Context, id VolumeID, in StreamIn, r io.Reader) error {
	if err := first(ctx, checkVolume(id), CheckPath(in.Path)); err != nil {
		return err
	}
	return c.Worker.StreamIn(ctx, id, in, r)
}

func (c checkedWorker) StreamOut(ctx context.Context, id VolumeID, out StreamOut, w io.Writer) error {
	if err := first(ctx, checkVolume(id), CheckPath(out.Path)); err != nil {
		return err
	}
	return c.Worker.StreamOut(ctx, id, out, w)
}

func (c checkedWorker) CreateContainer(ctx context.Context, spec ContainerSpec, progress func(Progress)) error {
	if err := first(ctx, spec.Validate()); err != nil {
		return err
	}
	return c.Worker.CreateContainer(ctx, spec, progress)
}

func (c checkedWorker) ListContainers(ctx context.Context, filter Filter, emit func(ContainerInfo) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.Worker.ListContainers(ctx, filter, emit)
}

func (c checkedWorker) DestroyContainer(ctx context.Context, id ContainerID) error {
	if err := first(ctx, checkContainer(id)); err != nil {
		return err
	}
	return c.Worker.DestroyContainer(ctx, id)
}

func (c checkedWorker) StartProcess(ctx context.Context, container ContainerID, spec ProcessSpec) error {
	if err := first(ctx, checkContainer(container), spec.Validate()); err != nil {
		return err
	}
	return c.Worker.StartProcess(ctx, container, spec)
}

func (c checkedWorker) ListProcesses(ctx context.Context, container ContainerID) ([]ProcessInfo, error) {
	if err := first(ctx, checkContainer(container)); err != nil {
		return nil, err
	}
	return c.Worker.ListProcesses(ctx, container)
}

func (c checkedWorker) FollowProcess(ctx context.Context, container ContainerID, process ProcessID, from Position, follow Follow) error {
	err := first(ctx, checkContainer(container), checkProcess(process))
	if err == nil && from < 0 {
		err = NewInvalid(ReasonSpec, "process %q: position %d is negative", process, from)
	}
	if err != nil {
		return err
	}
	return c.Worker.FollowProcess(ctx, container, process, from, follow)
}

func (c checkedWorker) SignalProcess(ctx context.Context, container ContainerID, process ProcessID, signal Signal) error {
	if err := first(ctx, checkContainer(container), checkProcess(process), signal.Validate()); err != nil {
		return err
	}
	return c.Worker.SignalProcess(ctx, container, process, signal)
}

// ResizeProcess and what follows are of the optional interfaces. Whether a worker has one is asked of its type alone: what its Status names is for
// hosts.
func (c checkedWorker) ResizeProcess(ctx context.Context, container ContainerID, process ProcessID, size TTY) error {
	if err := first(ctx, checkContainer(container), checkProcess(process)); err != nil {
		return err
	}
	return ResizeProcess(ctx, c.Worker, container, process, size)
}

func (c checkedWorker) PeerTicket(ctx context.Context, dst VolumeID, in StreamIn) (PeerTicket, error) {
	if err := first(ctx, checkVolume(dst), CheckPath(in.Path)); err != nil {
		return PeerTicket{}, err
	}
	p, ok := c.Worker.(PeerStreamer)
	if !ok {
		return PeerTicket{}, NewUnsupported(FeaturePeerStream)
	}
	ticket, err := p.PeerTicket(ctx, dst, in)
	if err != nil {
		return PeerTicket{}, err
	}
	return ticket, ticket.check()
}

func (c checkedWorker) PeerSend(ctx context.Context, src VolumeID, out StreamOut, ticket PeerTicket) error {
	if err := first(ctx, checkVolume(src), CheckPath(out.Path), ticket.check()); err != nil {
		return err
	}
	p, ok := c.Worker.(PeerStreamer)
	if !ok {
		return NewUnsupported(FeaturePeerStream)
	}
	return p.PeerSend(ctx, src, out, ticket)
}

func (t PeerTicket) check() error {
	if len(t.Data) > MaxTicketBytes {
		return NewInvalid(ReasonTooLarge, "a peer ticket of %d bytes is too large; at most %d are taken", len(t.Data), MaxTicketBytes)
	}
	return nil
}

func (c checkedWorker) StatFile(ctx context.Context, id VolumeID, path string) (FileInfo, error) {
	f, err := c.files(ctx, id, path)
	if err != nil {
		return FileInfo{}, err
	}
	return f.StatFile(ctx, id, path)
}

func (c checkedWorker) ListFiles(ctx context.Context, id VolumeID, dir string, emit func(FileInfo) error) error {
	f, err := c.files(ctx, id, dir)
	if err != nil {
		return err
	}
	return f.ListFiles(ctx, id, dir, emit)
}

func (c checkedWorker) ReadFile(ctx context.Context, id VolumeID, path string, offset, length int64, w io.Writer) error {
	if offset < 0 {
		return first(ctx, NewInvalid(ReasonSpec, "volume %q: file %.255q: offset %d is negative", id, path, offset))
	}
	f, err := c.files(ctx, id, path)
	if err != nil {
		return err
	}
	return f.ReadFile(ctx, id, path, offset, length, w)
}

// files gives the worker's FileReader for a call that names these.
func (c checkedWorker) files(ctx context.Context, id VolumeID, path string) (FileReader, error) {
	if err := first(ctx, checkVolume(id), CheckPath(path)); err != nil {
		return nil, err
	}
	f, ok := c.Worker.(FileReader)
	if !ok {
		return nil, NewUnsupported(FeatureFileRead)
	}
	return f, nil
}
