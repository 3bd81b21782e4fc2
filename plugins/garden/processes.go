package garden

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"code.cloudfoundry.org/garden"

	"github.com/slipway-run/slipway/plugins/garden/internal/gdn"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// exec is all that the shim's driver asks of a runtime.
func (w *worker) exec(ctx context.Context, id sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if w.marked(w.ending, id) {
		return sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	if !w.marked(w.making, id) {
		f, err := w.facts(ctx, id)
		if err != nil {
			return err
		}
		if !f.ready {
			return creating(id)
		}
	}
	argv = shim.TextCommand(argv)                                                  // Garden carries stdin in JSON
	spec := garden.ProcessSpec{Path: argv[0], Args: argv[1:], Dir: "/", User: "0"} // a number needs no /etc/passwd
	if f, ok := stdin.(*os.File); ok {
		stdin = text{shim.TextStdin(f), f}
	}
	status, err := w.garden.Exec(ctx, string(id), spec, stdin, stdout, stderr)
	if status > 128 && !w.marked(w.making, id) { // it was killed, perhaps with all others
		w.suspect(id, true)
	}
	if _, refused := errors.AsType[*gdn.Refusal](err); refused && !w.marked(w.making, id) && (w.hasEnded(ctx, id) || w.vanishes(ctx, id)) {
		err = sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	if w.marked(w.ending, id) {
		return sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	if sdk.IsNotFound(err, sdk.KindContainer) {
		w.forget(id)
	}
	return err
}

// destroying is how long a server may take from when a container runs nothing any more to when it is gone.
const destroying = 10 * time.Second

// vanishes tells whether a container that refuses what it did before is one that somebody else is destroying: then it is gone in a moment.
func (w *worker) vanishes(ctx context.Context, id sdk.ContainerID) bool {
	ctx, cancel := context.WithTimeout(ctx, destroying)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		there, err := w.garden.Has(ctx, string(id))
		if err != nil || !there {
			return err == nil
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return false
		}
	}
}

// text is a stdin as the shim's text, which can still be told to wait no longer.
type text struct {
	io.Reader
	*os.File
}

func (t text) Read(p []byte) (int, error) { return t.Reader.Read(p) }

// StartProcess sees to what the shim cannot know: the state of the container, where relative things begin, and proxies. Sealed volumes it does
// know of: SealVolume tells it.
func (w *worker) StartProcess(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
	f, err := w.facts(ctx, id)
	if sdk.IsNotFound(err, sdk.KindContainer) {
		return w.started(ctx, id, spec)
	}
	if err != nil {
		return err
	}
	if !f.ready {
		return creating(id)
	}
	spec.Dir = cmp.Or(spec.Dir, f.dir, "/")
	spec.Env = w.withProxies(spec.Env)
	err = w.Driver.StartProcess(ctx, id, spec)
	switch {
	case sdk.IsNotFound(err, sdk.KindContainer):
		return w.started(ctx, id, spec)
	case errors.Is(err, sdk.ReasonRecordLost):
		return dead(id)
	}
	return err
}

// SignalProcess has the container's keeper send a signal.
func (w *worker) SignalProcess(ctx context.Context, id sdk.ContainerID, process sdk.ProcessID, signal sdk.Signal) error {
	return w.ended(ctx, id, process, w.Driver.SignalProcess(ctx, id, process, signal))
}

// ResizeProcess has it resize a terminal.
func (w *worker) ResizeProcess(ctx context.Context, id sdk.ContainerID, process sdk.ProcessID, size sdk.TTY) error {
	return w.ended(ctx, id, process, w.Driver.ResizeProcess(ctx, id, process, size))
}

// ended answers for a process of a container that is not there from what that has left, if it went behind our back.
func (w *worker) ended(ctx context.Context, id sdk.ContainerID, process sdk.ProcessID, err error) error {
	if !sdk.IsNotFound(err, sdk.KindContainer) {
		return err
	}
	return w.remains(ctx, id, err, process, func(r shim.Records) error { return r.SignalProcess(process) })
}

// withProxies adds the operator's proxies where nothing of that name is set. Programs differ in which case they read.
func (w *worker) withProxies(env []string) []string {
	c := w.config
	out := slices.Clone(env)
	for _, p := range [][2]string{{"http_proxy", c.HTTPProxy}, {"https_proxy", c.HTTPSProxy}, {"no_proxy", c.NoProxy}} {
		set := slices.ContainsFunc(env, func(e string) bool {
			name, _, _ := strings.Cut(e, "=")
			return strings.EqualFold(name, p[0])
		})
		if p[1] != "" && !set {
			out = append(out, p[0]+"="+p[1], strings.ToUpper(p[0])+"="+p[1])
		}
	}
	return out
}
