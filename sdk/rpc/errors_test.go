package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc/rpctest"
)

// declared lists the values of the contract's constants of one type, out of its source: a new one needs no change here.
func declared(t *testing.T, typ string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == typ {
			values = append(values, strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`))
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("no constants of type %s", typ)
	}
	return values
}

func TestEveryErrorCrosses(t *testing.T) {
	r := &recorder{}
	_, w := join(t, r)
	check := func(t *testing.T, sent *sdk.Error) {
		t.Helper()
		r.answer.err = fmt.Errorf("while trying: %w", sent)
		_, err := w.Status(t.Context())
		got, ok := errors.AsType[*sdk.Error](err)
		if !ok {
			t.Fatalf("got %T %v", err, err)
		}
		want := *sent
		want.Message = "while trying: " + sent.Error()
		if diff := cmp.Diff(&want, got, cmpopts.IgnoreFields(sdk.Error{}, "Cause")); diff != "" {
			t.Errorf("-sent +got:\n%s", diff)
		}
		if !errors.Is(err, sent.Class) {
			t.Errorf("errors.Is(err, %q) is false", sent.Class)
		}
		if sent.Reason != "" && !errors.Is(err, sent.Reason) {
			t.Errorf("errors.Is(err, %q) is false", sent.Reason)
		}
	}
	for _, class := range declared(t, "Class") {
		t.Run("class "+class, func(t *testing.T) { check(t, &sdk.Error{Class: sdk.Class(class), Message: "words"}) })
		t.Run("whole "+class, func(t *testing.T) {
			check(t, &sdk.Error{Class: sdk.Class(class), Kind: sdk.KindVolume, ID: "v", Reason: "new-reason", Feature: sdk.FeatureTTY,
				Position: 1 << 40, RetryAfter: 1500 * time.Millisecond, Message: "words", Cause: io.ErrNoProgress})
		})
	}
	for _, reason := range declared(t, "Reason") {
		t.Run("reason "+reason, func(t *testing.T) { check(t, &sdk.Error{Class: sdk.FailedPrecondition, Reason: sdk.Reason(reason)}) })
	}
	for _, kind := range declared(t, "Kind") {
		t.Run("kind "+kind, func(t *testing.T) { check(t, &sdk.Error{Class: sdk.NotFound, Kind: sdk.Kind(kind), ID: "x"}) })
	}
}

func TestEveryMethodTellsItsError(t *testing.T) {
	everyCall(t, func(t *testing.T, m method) {
		want := &sdk.Error{Class: sdk.Exhausted, Kind: sdk.KindWorker, ID: "w", Reason: sdk.ReasonStorage, RetryAfter: time.Second, Message: "full"}
		r := &recorder{answer: answers{err: want}}
		rt, w := join(t, r)
		_, _, _, err := m.call(t.Context(), r, rt, w)
		got, _ := errors.AsType[*sdk.Error](err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v\n-sent +got:\n%s", err, diff)
		}
	})
}

func TestEveryMethodSurvivesItsPanic(t *testing.T) {
	everyCall(t, func(t *testing.T, m method) {
		r := &recorder{answer: answers{panics: true}}
		rt, w := join(t, r)
		_, _, _, err := m.call(t.Context(), r, rt, w)
		if !errors.Is(err, sdk.Internal) || !errors.Is(err, sdk.ReasonPanic) {
			t.Fatalf("got %v", err)
		}
		r.answer.panics = false
		if _, err := w.Status(t.Context()); err != nil {
			t.Errorf("after the panic: %v", err)
		}
	})
}

func TestPlainErrorsAreInternal(t *testing.T) {
	for _, plain := range []error{errors.New("no class"), context.Canceled, context.DeadlineExceeded} {
		r := &recorder{answer: answers{err: plain}}
		_, w := join(t, r)
		_, err := w.Status(t.Context())
		if !errors.Is(err, sdk.Internal) {
			t.Errorf("%v came as %v", plain, err)
		}
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v of the plugin's own came as the caller's: %v", plain, err)
		}
	}
}

func TestErrorWithHugeOrBrokenWords(t *testing.T) {
	r := &recorder{answer: answers{err: sdk.NewInvalid(sdk.ReasonArchive, "%s\xff", strings.Repeat("x", 1<<20))}}
	_, w := join(t, r)
	if _, err := w.Status(t.Context()); !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonArchive) {
		t.Errorf("got %.100v", err)
	}
	r.answer.err = sdk.NewNotFound(sdk.KindFile, "name\xff")
	if _, err := w.Status(t.Context()); !sdk.IsNotFound(err, sdk.KindFile) {
		t.Errorf("got %v", err)
	}
}

// required hides every optional interface of a worker.
type required struct{ sdk.Worker }

type requiredOnly struct{ *recorder }

func (r requiredOnly) Worker(string) (sdk.Worker, error) { return required{r.recorder}, nil }

func TestOptionalMethodsThatTheTypeLacks(t *testing.T) {
	r := &recorder{answer: answers{status: sdk.Status{Features: []sdk.Feature{sdk.FeatureTTYResize, sdk.FeatureFileRead,
		sdk.FeaturePeerStream, sdk.FeatureTTY, "newer"}}}}
	w, err := rpctest.Pair(t, requiredOnly{r}).Worker("w")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	status, err := w.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]sdk.Feature{sdk.FeatureTTY, "newer"}, status.Features); diff != "" {
		t.Errorf("features, -want +got:\n%s", diff)
	}
	files, peers := w.(sdk.FileReader), w.(sdk.PeerStreamer)
	calls := map[string]struct {
		feature sdk.Feature
		call    func() error
	}{
		"ResizeProcess": {sdk.FeatureTTYResize, func() error { return sdk.ResizeProcess(ctx, w, "c", "p", sdk.TTY{}) }},
		"PeerTicket":    {sdk.FeaturePeerStream, func() error { _, err := peers.PeerTicket(ctx, "v", sdk.StreamIn{}); return err }},
		"PeerSend": {sdk.FeaturePeerStream, func() error {
			return peers.PeerSend(ctx, "v", sdk.StreamOut{}, sdk.PeerTicket{})
		}},
		"StatFile":  {sdk.FeatureFileRead, func() error { _, err := files.StatFile(ctx, "v", "f"); return err }},
		"ListFiles": {sdk.FeatureFileRead, func() error { return files.ListFiles(ctx, "v", "d", func(sdk.FileInfo) error { return nil }) }},
		"ReadFile":  {sdk.FeatureFileRead, func() error { return files.ReadFile(ctx, "v", "f", 0, -1, io.Discard) }},
	}
	for name, c := range calls {
		err := c.call()
		e, _ := errors.AsType[*sdk.Error](err)
		if e == nil || e.Class != sdk.Unsupported || e.Feature != c.feature {
			t.Errorf("%s: got %v, want Unsupported of %q", name, err, c.feature)
		}
	}
}

var errOwn = errors.New("the caller's own")

type failingReader struct{ after io.Reader }

func (r failingReader) Read(p []byte) (int, error) {
	n, err := r.after.Read(p)
	if err == io.EOF {
		err = errOwn
	}
	return n, err
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errOwn }

func TestCallersOwnErrorsComeBackUnchanged(t *testing.T) {
	r := &recorder{answer: answers{
		data: []byte("data"), volumes: filled[[]sdk.VolumeInfo](), boxes: filled[[]sdk.ContainerInfo](), files: filled[[]sdk.FileInfo](),
		records: []sdk.Record{{Stream: sdk.Stdout, Data: []byte("x")}}, events: filled[[]sdk.WorkerEvent](),
	}}
	rt, w := join(t, r)
	ctx := t.Context()
	follow := func(f sdk.Follow) func() error {
		return func() error { return w.FollowProcess(ctx, "c", "p", 0, f) }
	}
	calls := map[string]func() error{
		"StreamIn": func() error {
			return w.StreamIn(ctx, "v", sdk.StreamIn{}, failingReader{bytes.NewReader(make([]byte, 1<<20))})
		},
		"StreamOut":   func() error { return w.StreamOut(ctx, "v", sdk.StreamOut{}, failingWriter{}) },
		"ReadFile":    func() error { return w.(sdk.FileReader).ReadFile(ctx, "v", "f", 0, -1, failingWriter{}) },
		"ListVolumes": func() error { return w.ListVolumes(ctx, sdk.Filter{}, func(sdk.VolumeInfo) error { return errOwn }) },
		"ListContainers": func() error {
			return w.ListContainers(ctx, sdk.Filter{}, func(sdk.ContainerInfo) error { return errOwn })
		},
		"ListFiles": func() error {
			return w.(sdk.FileReader).ListFiles(ctx, "v", "d", func(sdk.FileInfo) error { return errOwn })
		},
		"Workers":       func() error { return rt.Workers(ctx, func(sdk.WorkerEvent) error { return errOwn }) },
		"Follow.Opened": follow(sdk.Follow{Opened: func(sdk.Opened) error { return errOwn }}),
		"Follow.Output": follow(sdk.Follow{Output: func([]sdk.Record) error { return errOwn }}),
		"Follow.Exit":   follow(sdk.Follow{Exit: func(sdk.Exit) error { return errOwn }}),
	}
	for name, call := range calls {
		if err := call(); err != errOwn {
			t.Errorf("%s: got %v, want the very error of the callback", name, err)
		}
	}
}

func TestPluginSeesItsReaderFail(t *testing.T) {
	r := &recorder{}
	_, w := join(t, r)
	if err := w.StreamIn(t.Context(), "v", sdk.StreamIn{}, failingReader{strings.NewReader("half")}); err != errOwn {
		t.Errorf("caller got %v", err)
	}
	seen, _ := r.args()[2].(error)
	if seen == nil || errors.Is(seen, io.EOF) || !strings.Contains(seen.Error(), errOwn.Error()) {
		t.Errorf("plugin saw %v", seen)
	}
}

// TestTextThatIsNoText gives what protobuf's strings cannot hold, where the contract's checks do not look.
func TestTextThatIsNoText(t *testing.T) {
	_, w := join(t, &recorder{})
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"image": func() error {
			return w.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: "t", Image: sdk.Image{Ref: "\xff"}}, nil)
		},
		"user": func() error {
			return w.StartProcess(ctx, "c", sdk.ProcessSpec{ID: "p", Token: "t", Path: "x", User: "\xff"})
		},
		"id":        func() error { return w.SealVolume(ctx, "\xff") },
		"encoding":  func() error { return w.StreamIn(ctx, "v", sdk.StreamIn{Encoding: "\xff"}, strings.NewReader("")) },
		"encoding2": func() error { return w.StreamOut(ctx, "v", sdk.StreamOut{Encoding: "\xff"}, io.Discard) },
		"process":   func() error { return w.FollowProcess(ctx, "c", "\xff", 0, sdk.Follow{}) },
		"filter": func() error {
			return w.ListVolumes(ctx, sdk.Filter{Labels: map[string]string{"a": "\xff"}}, func(sdk.VolumeInfo) error { return nil })
		},
	} {
		if err := call(); !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonSpec) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := w.Status(ctx); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

func TestRequestThatNoServerTakes(t *testing.T) {
	_, w := join(t, &recorder{})
	err := w.(sdk.PeerStreamer).PeerSend(t.Context(), "v", sdk.StreamOut{}, sdk.PeerTicket{Data: make([]byte, 4<<20)})
	if !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonTooLarge) {
		t.Errorf("got %v", err)
	}
}
