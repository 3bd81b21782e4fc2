package keeper

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/slipway-run/slipway/sdk"
)

func TestStdinResumesWithoutRepeatOrHole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := New(sdk.ProcessSpec{Stdin: true}, nil)
		source := bytes.Repeat([]byte("0123456789"), rapid.IntRange(0, 20_000).Draw(t, "size"))
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(source)), 0, 5).Draw(t, "cuts")
		read := make(chan []byte, 1)
		go func() {
			b, _ := io.ReadAll(stdinOf(t.Context(), j))
			read <- b
		}()
		for i, cut := range append(cuts, len(source)) {
			var src io.Reader = &lateReader{}
			err := j.Follow(t.Context(), 0, sdk.Follow{
				Opened: func(o sdk.Opened) error {
					if o.StdinGeneration != int64(i+1) {
						t.Fatalf("generation %d, want %d", o.StdinGeneration, i+1)
					}
					rest := source[o.StdinTaken:]
					if i < len(cuts) { // the connection breaks somewhere
						rest = rest[:min(len(rest), cut)]
						src.(*lateReader).Reader = io.MultiReader(bytes.NewReader(rest), iotest.ErrReader(errEnough))
						return nil
					}
					src.(*lateReader).Reader = iotest.DataErrReader(bytes.NewReader(rest))
					finishLater(j, read)
					return nil
				},
				Stdin: src,
			})
			if i < len(cuts) && err != errEnough || i == len(cuts) && err != nil {
				t.Fatalf("follower %d: %v", i, err)
			}
		}
		if got := <-read; !bytes.Equal(got, source) {
			t.Fatalf("the process read %d bytes that are not the %d sent", len(got), len(source))
		}
	})
}

// lateReader is a source that is known only once Opened has told where to begin.
type lateReader struct{ io.Reader }

// finishLater lets the process exit once it has read all.
func finishLater(j *Journal, read chan []byte) {
	go func() {
		b := <-read
		j.Exit(sdk.Exit{})
		read <- b
	}()
}

type stdinReader struct {
	ctx context.Context
	j   *Journal
}

func stdinOf(ctx context.Context, j *Journal) io.Reader { return stdinReader{ctx, j} }

func (r stdinReader) Read(p []byte) (int, error) { return r.j.ReadStdin(r.ctx, p) }

func TestStdinOfAnOlderFollowerIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(sdk.ProcessSpec{Stdin: true}, nil)
		pr, pw := io.Pipe()
		older := make(chan error, 1)
		go func() { older <- j.Follow(t.Context(), 0, sdk.Follow{Stdin: pr}) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		newer := make(chan error, 1)
		go func() { newer <- j.Follow(ctx, 0, sdk.Follow{}) }() // without stdin: takes over, closes nothing
		if err := <-older; !errors.Is(err, sdk.ReasonSuperseded) {
			t.Errorf("older: %v", err)
		}
		_, _ = pw.Write([]byte("late"))
		_ = pw.Close()
		synctest.Wait()
		if j.stdin.taken != 0 || j.stdin.closed {
			t.Errorf("stdin of the older follower was taken: %+v", j.stdin)
		}
		cancel()
		<-newer
	})
}

func TestStdinIsReadNoFurtherThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(sdk.ProcessSpec{Stdin: true}, nil)
		var src countingReader
		ended := make(chan error, 1)
		go func() { ended <- j.Follow(t.Context(), 0, sdk.Follow{Stdin: &src}) }()
		synctest.Wait() // nobody reads
		if ahead := src.n - j.stdin.taken; ahead > sdk.MaxStdinAhead || src.n == 0 {
			t.Errorf("%d bytes read ahead", ahead)
		}
		time.Sleep(time.Hour) // still nobody
		j.Exit(sdk.Exit{})
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

type countingReader struct{ n int64 }

func (r *countingReader) Read(p []byte) (int, error) { r.n += int64(len(p)); return len(p), nil }

func TestStdinThatNobodyReadsAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(sdk.ProcessSpec{Stdin: true}, nil)
		var src countingReader
		ended := make(chan error, 1)
		go func() { ended <- j.Follow(t.Context(), 0, sdk.Follow{Stdin: &src}) }()
		synctest.Wait()
		j.CloseStdin()
		if n, err := j.ReadStdin(t.Context(), make([]byte, 10)); n != 0 || err != io.EOF {
			t.Errorf("read %d, %v", n, err)
		}
		synctest.Wait()
		taken, read := j.stdin.taken, src.n
		if _, err := j.Write(t.Context(), sdk.Stdout, []byte("still here")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if j.stdin.taken != taken || src.n != read || j.stdin.buffer != nil {
			t.Errorf("more was taken: %d and %d, %d and %d", taken, j.stdin.taken, read, src.n)
		}
		j.Exit(sdk.Exit{})
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
