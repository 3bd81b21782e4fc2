//go:build linux

package onnomad

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// boxes runs a benchmark on both drivers.
func boxes(b *testing.B, f func(b *testing.B, box *box)) {
	a := startAgent(b, nomadtest.Options{Dev: true})
	for _, driver := range []string{nomadtest.RawExec, nomadtest.Exec} {
		if driver == nomadtest.Exec && !a.HasExec() {
			continue
		}
		box := newBox(b, settings(b, a, driver))
		b.Run(driver, func(b *testing.B) { f(b, box) })
	}
}

// bare runs a command by alloc exec alone, and gives how many bytes it wrote.
func (b *box) bare(ctx context.Context, argv ...string) (int64, error) {
	alloc, err := b.alloc(ctx, b.id)
	if err != nil {
		return 0, err
	}
	var n counter
	err = b.execIn(ctx, alloc, argv, strings.NewReader(""), &n, io.Discard)
	return int64(n), err
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// through runs a command through a driver, to its exit, and gives how many bytes it wrote.
func through(ctx context.Context, d *shim.Driver, container sdk.ContainerID, id, path string, args ...string) (n int64, err error) {
	spec := sdk.ProcessSpec{ID: sdk.ProcessID(id), Token: sdk.NewToken(), Path: path, Args: args}
	if err := d.StartProcess(ctx, container, spec); err != nil {
		return 0, err
	}
	var exit *sdk.Exit
	err = d.FollowProcess(ctx, container, spec.ID, 0, sdk.Follow{
		Output: func(records []sdk.Record) error {
			for _, r := range records {
				n += int64(len(r.Data))
			}
			return nil
		},
		Exit: func(e sdk.Exit) error { exit = &e; return nil },
	})
	if err == nil && (exit == nil || exit.Code != 0) {
		err = fmt.Errorf("exit %+v", exit)
	}
	return n, err
}

// timed adds what f takes to sum.
func timed(b *testing.B, sum *time.Duration, f func() error) {
	b.Helper()
	from := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	*sum += time.Since(from)
}

// BenchmarkTrue runs `true` from its start to its exit by three ways in turn: an open session, a relay of its own, and bare alloc exec. A
// container takes 4,096 processes in its life, and this needs two for each round.
func BenchmarkTrue(b *testing.B) {
	boxes(b, func(b *testing.B, box *box) {
		if b.N > sdk.MaxProcesses/4 {
			b.Skip("unsupported: more rounds than one container takes; use -benchtime 300x")
		}
		ctx := b.Context()
		round := fmt.Sprint("n", b.N, "-") // this function is called several times for one container
		var open, fresh, bare time.Duration
		for i := range b.N {
			timed(b, &open, func() error {
				_, err := through(ctx, box.Driver, box.id, fmt.Sprint("o", round, i), "/bin/true")
				return err
			})
			timed(b, &fresh, func() error {
				d := shim.New(box.exec, shim.Options{Locate: box.locate})
				_, err := through(ctx, d, box.id, fmt.Sprint("f", round, i), "/bin/true")
				if err != nil {
					return err
				}
				return d.Close()
			})
			timed(b, &bare, func() error { _, err := box.bare(ctx, "/bin/true"); return err })
		}
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(b.N) }
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(ms(open), "open-ms")
		b.ReportMetric(ms(fresh), "fresh-ms")
		b.ReportMetric(ms(bare), "bare-ms")
		b.ReportMetric(float64(open)/float64(bare), "open/bare")
		b.ReportMetric(float64(fresh)/float64(bare), "fresh/bare")
	})
}

// BenchmarkOutput carries 256 MiB by a follower and by bare alloc exec in turn.
func BenchmarkOutput(b *testing.B) {
	const size = 256 << 20
	boxes(b, func(b *testing.B, box *box) {
		ctx := b.Context()
		round := fmt.Sprint("n", b.N, "-")
		var follow, bare time.Duration
		script := fmt.Sprintf("head -c %d /dev/zero", size)
		whole := func(n int64, err error) error {
			if err == nil && n != size {
				err = fmt.Errorf("%d bytes of %d", n, size)
			}
			return err
		}
		for i := range b.N {
			timed(b, &follow, func() error {
				return whole(through(ctx, box.Driver, box.id, fmt.Sprint("h", round, i), "/bin/sh", "-c", script))
			})
			timed(b, &bare, func() error { return whole(box.bare(ctx, "/bin/sh", "-c", script)) })
		}
		rate := func(d time.Duration) float64 { return float64(b.N) * size / (1 << 20) / d.Seconds() }
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(rate(follow), "follow-MiB/s")
		b.ReportMetric(rate(bare), "bare-MiB/s")
		b.ReportMetric(rate(follow)/rate(bare), "follow/bare")
	})
}
