//go:build linux

package ongarden

import (
	"context"
	"fmt"
	"io"
	"testing"

	"code.cloudfoundry.org/garden"
	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// BenchmarkStep is a container made, "true" run in it, and all destroyed: through a host and the plugin's program, and by calls made directly with the servers'
// clients, in turns. Times are medians, in ms.
//
// "direct" are the calls that a container with a shim cannot do without; "ratio" is ours by that:
//
//   - at once, a copy-on-write volume of the image and one of the shim's volume
//   - Create, with that image and the shim's two mounts
//   - Run of the shim, over which "true" is started and followed to its end, as sdk/shim's driver does it
//   - a property on the shim's volume and one on the container, that say that it was made whole
//   - Destroy, and both volumes destroyed in one call
//
// "bare" are those without a shim: one volume, Create, Run of "true" itself and waiting for its end, Destroy, and the volume destroyed; "ratio-bare" is ours
// by that. Between the two is what the shim costs, whoever calls it: a process that outlives its client costs a keeper.
func BenchmarkStep(b *testing.B) {
	servers := gardentest.Start(b, gardentest.Options{})
	h := openHost(b, gardenConfig(b, worker{name: "here", garden: settings(b, servers)}))
	check(b, step(b.Context(), h, "first", host.ContainerRequest{}, host.ProcessRequest{Path: "true"})) // makes the volumes that all containers are copies of
	d := newDirect(b, servers)
	shimVolume := d.withFile(b, servers, "slipway.base.", "bin/shim")
	var ours, direct, bare laps
	for i := 0; b.Loop(); i++ {
		ours.time(b, hostStep(b.Context(), h, fmt.Sprintf("bench/%d", i)))
		direct.time(b, d.shimStep(b.Context(), fmt.Sprintf("direct-%d", i), shimVolume))
		bare.time(b, d.bareStep(b.Context(), fmt.Sprintf("bare-%d", i)))
	}
	for i, part := range []string{"create", "run", "destroy"} {
		b.ReportMetric(ours.median(i), "ms-"+part)
		b.ReportMetric(direct.median(i), "ms-"+part+"-direct")
		b.ReportMetric(bare.median(i), "ms-"+part+"-bare")
	}
	b.ReportMetric(ours.median(total), "ms")
	b.ReportMetric(direct.median(total), "ms-direct")
	b.ReportMetric(bare.median(total), "ms-bare")
	b.ReportMetric(ours.median(total)/direct.median(total), "ratio")
	b.ReportMetric(ours.median(total)/bare.median(total), "ratio-bare")
}

// hostStep is a step through a host.
func hostStep(ctx context.Context, h *host.Host, owner string) [total]func() error {
	var c *host.Container
	return [total]func() error{
		func() (err error) { c, err = h.Container(ctx, owner, host.ContainerRequest{}); return err },
		func() error {
			p, err := c.Start(ctx, host.MainProcess, host.ProcessRequest{Path: "true"})
			if err != nil {
				return err
			}
			o, err := p.Wait(ctx)
			if err == nil && (o.Exit == nil || o.Exit.Code != 0) {
				err = fmt.Errorf("it ended with %+v, %w", o.Exit, o.Err)
			}
			return err
		},
		func() error { return c.Destroy(ctx) },
	}
}

// bareStep is a step without shim and without anything of ours.
func (d *direct) bareStep(ctx context.Context, handle string) [total]func() error {
	var c garden.Container
	return [total]func() error{
		func() error {
			root, err := d.volume(ctx, handle+"-root", busyboxVolume)
			if err != nil {
				return err
			}
			c, err = d.garden.Create(garden.ContainerSpec{Handle: handle, RootFSPath: "raw://" + root + "/rootfs"})
			return err
		},
		func() error {
			p, err := c.Run(garden.ProcessSpec{Path: "true", User: "root"}, garden.ProcessIO{})
			if err != nil {
				return err
			}
			code, err := p.Wait()
			if err == nil && code != 0 {
				err = fmt.Errorf("it ended with %d", code)
			}
			return err
		},
		func() error {
			if err := d.garden.Destroy(handle); err != nil {
				return err
			}
			return d.destroy(ctx, handle+"-root")
		},
	}
}

// shimStep is a step with the shim, and without anything else of ours.
func (d *direct) shimStep(ctx context.Context, handle, shimVolume string) [total]func() error {
	var c garden.Container
	id := sdk.ContainerID(handle)
	driver := shim.New(func(ctx context.Context, _ sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
		argv = shim.TextCommand(argv)
		p, err := c.Run(garden.ProcessSpec{Path: argv[0], Args: argv[1:], User: "root"}, garden.ProcessIO{Stdin: shim.TextStdin(stdin), Stdout: stdout, Stderr: stderr})
		if err != nil {
			return err
		}
		_, err = p.Wait()
		return err
	}, shim.Options{Program: "/slipway/bin/shim"})
	return [total]func() error{
		func() error {
			var root, own string
			g, gctx := errgroup.WithContext(ctx)
			g.Go(func() (err error) { root, err = d.volume(gctx, handle+"-root", busyboxVolume); return err })
			g.Go(func() (err error) { own, err = d.volume(gctx, handle+"-shim", shimVolume); return err })
			err := g.Wait()
			if err != nil {
				return err
			}
			c, err = d.garden.Create(garden.ContainerSpec{
				Handle: handle, RootFSPath: "raw://" + root + "/rootfs", Properties: garden.Properties{"made": "0"}, BindMounts: []garden.BindMount{
					{SrcPath: own + "/bin", DstPath: "/slipway/bin", Mode: garden.BindMountModeRO},
					{SrcPath: own + "/scratch", DstPath: "/slipway/scratch", Mode: garden.BindMountModeRW},
				},
			})
			if err != nil {
				return err
			}
			if _, err := driver.Start(ctx, id); err != nil {
				return err
			}
			if err := d.mark(ctx, handle+"-shim"); err != nil {
				return err
			}
			return c.SetProperty("made", "1")
		},
		func() error {
			if err := driver.StartProcess(ctx, id, sdk.ProcessSpec{ID: "main", Token: "t", Path: "true", Dir: "/"}); err != nil {
				return err
			}
			return driver.FollowProcess(ctx, id, "main", 0, sdk.Follow{Exit: func(e sdk.Exit) error {
				if e.Code != 0 {
					return fmt.Errorf("it ended with %+v", e)
				}
				return nil
			}})
		},
		func() error {
			driver.Rest(ctx, id) // a server takes longer to destroy what it runs commands in
			if err := d.garden.Destroy(handle); err != nil {
				return err
			}
			if err := driver.Close(); err != nil {
				return err
			}
			return d.destroy(ctx, handle+"-root", handle+"-shim")
		},
	}
}
