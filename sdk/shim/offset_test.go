package shim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// recorded is what a good program answers to a call, all of it.
func recorded(t testing.TB, call func(*Driver) error) []byte {
	w := newWorld(t)
	w.hello = wire.Hello{State: wire.StateReady}
	first := w.driver(t, Options{})
	start(t, first, "p", "gen", "5", "3000")
	await := &listener{t: t}
	f := await.follow()
	f.Acks = make(chan sdk.Position) // so that the output stays
	ctx, cancel := context.WithCancel(t.Context())
	f.Exit = func(sdk.Exit) error { cancel(); return nil }
	if err := first.FollowProcess(ctx, box, "p", 0, f); err != context.Canceled {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var b bytes.Buffer
	d := New(func(ctx context.Context, id sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
		r, pw, err := os.Pipe()
		if err != nil {
			return err
		}
		var copying sync.WaitGroup
		copying.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			_, _ = io.Copy(io.MultiWriter(stdout, &b), r)
		})
		err = w.exec(ctx, id, argv, stdin, pw, stderr)
		pw.Close()
		copying.Wait()
		r.Close()
		return err
	}, Options{})
	if err := call(d); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return b.Bytes()
}

// replay answers with p once the request has come, and then ends.
func replay(p []byte, hello int) Exec {
	return raw(func(l *line) {
		if _, err := l.Write(p[:min(len(p), hello)]); err != nil || len(p) <= hello {
			return
		}
		if _, err := io.ReadFull(l.in, make([]byte, 24+4)); err != nil { // the stream's opening, and the request's beginning
			return
		}
		_, _ = l.Write(p[hello:])
	})
}

// A good session that ends at any byte is an error, and never a wrong answer.
func TestEveryOffset(t *testing.T) {
	type result struct {
		out   []byte
		exits int
		list  []sdk.ProcessInfo
	}
	for _, c := range []struct {
		name string
		call func(*Driver, *result) error
	}{
		{"follow", func(d *Driver, r *result) error {
			return d.FollowProcess(t.Context(), box, "p", 0, sdk.Follow{
				Output: func(records []sdk.Record) error {
					for _, rec := range records {
						if int(rec.Position) != len(r.out) {
							return fmt.Errorf("a record at %d after %d bytes", rec.Position, len(r.out))
						}
						r.out = append(r.out, rec.Data...)
					}
					return nil
				},
				Exit: func(sdk.Exit) error { r.exits++; return nil },
			})
		}},
		{"list", func(d *Driver, r *result) (err error) { r.list, err = d.ListProcesses(t.Context(), box); return err }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := recorded(t, func(d *Driver) error { return c.call(d, new(result)) })
			hello := bytes.IndexByte(p, '\n') + 1
			whole := 0
			for n := range len(p) + 1 {
				if n > 600 && n < len(p)-600 && n%7 != 0 { // the inside of the output is all alike
					continue
				}
				d := New(replay(p[:n], hello), Options{})
				var r result
				err := c.call(d, &r)
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				check(t, fmt.Sprint(n), err)
				switch {
				case err == nil:
					whole++
					if c.name == "follow" && (!bytes.Equal(r.out, seeded(5, 3000)) || r.exits != 1) || c.name == "list" && len(r.list) != 1 {
						t.Errorf("after %d of %d bytes: success with %d bytes, %d exits, %d processes", n, len(p), len(r.out), r.exits, len(r.list))
					}
				case !errors.Is(err, sdk.Unavailable) && !errors.Is(err, wire.ErrProtocol):
					t.Errorf("after %d of %d bytes: %v", n, len(p), err)
				}
				if !bytes.HasPrefix(seeded(5, 3000), r.out) || r.exits > 1 {
					t.Errorf("after %d of %d bytes: wrong output, %d bytes, %d exits", n, len(p), len(r.out), r.exits)
				}
			}
			if whole == 0 || whole > 60 {
				t.Errorf("%d prefixes are enough", whole)
			}
		})
	}
}

// FuzzContainer has arbitrary bytes be all that a container answers: from its first word on, or once a session has begun.
func FuzzContainer(f *testing.F) {
	f.Add(false, []byte("slipway-shim 1 {\"State\":\"ready\"}\n"))
	f.Add(false, []byte("slipway-shim 1 {\"State\":\"files\"}\n\x0d\x00\x00\x01a\x03\x00\x00\x02{}"))
	for _, p := range [][]byte{
		nil, mux(1, 2, 1, 0), mux(0, 2, 1, 6, 3, 0, 0, 2, '{', '}'), mux(0, 0, 1, 5, 4, 0, 0, 1, '{'), mux(2, 1, 0, 1), mux(3, 0, 0, 0), mux(1, 1, 2, 0), mux(1, 4, 1, 0),
		append(mux(0, 2, 1, 4+11, append([]byte{4, 0, 0, 11}, "{\"State\":1}"...)...), mux(0, 4, 1, 22, append([]byte{5, 0, 0, 18, 1}, make([]byte, 17)...)...)...),
	} {
		f.Add(true, p)
	}
	f.Fuzz(func(t *testing.T, session bool, p []byte) {
		d := impatient(t, raw(func(l *line) {
			if session {
				if wire.WriteHello(l, wire.Hello{State: wire.StateReady}) != nil {
					return
				}
				_, _ = io.ReadFull(l.in, make([]byte, 24)) // a stream was opened
			}
			_, _ = l.Write(p)
		}))
		for name, err := range every(testkit.Context(t), d) {
			check(t, name, err)
			if err == context.DeadlineExceeded {
				t.Errorf("%s does not end", name)
			}
		}
	})
}
