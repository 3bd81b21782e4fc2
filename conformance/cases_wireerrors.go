package conformance

import (
	"context"

	"github.com/slipway-run/slipway/conformance/internal/wire"
	"github.com/slipway-run/slipway/sdk"
)

// errorDetailID is the case on what all that is refused stands on.
const errorDetailID = "J15-error-detail"

func runErrorDetail(ctx context.Context, c *C) {
	w := c.wired(ctx)
	const why = "a host decides by what is in the details, and by nothing else"
	id := string(c.VolumeID())
	for method, call := range map[string]func() error{
		"Worker/SealVolume": func() error {
			_, err := w.control.Call(ctx, "Worker/SealVolume", wire.Message{"worker": w.worker, "id": id})
			return err
		},
		"Data/StreamOut": func() error {
			_, err := w.ask(ctx, "Data/StreamOut", wire.Message{"worker": w.worker, "volume": id}).Rest()
			return err
		},
	} {
		err := call()
		w.wants(err, "CLASS_NOT_FOUND", "", why, "%s of a volume that is not there", method)
		if d := wire.Detail(err); d != nil && (d.Text("kind") != "volume" || d.Text("id") != id) {
			c.Errorf(why, "%s of volume %q, which is not there: the error is of kind %q and id %q", method, id, d.Text("kind"), d.Text("id"))
		}
	}
	_, err := w.control.Call(ctx, "Worker/CreateVolume", wire.Message{"worker": w.worker, "id": "Not/An-Id", "token": "t"})
	w.wants(err, "CLASS_INVALID", "spec", why, "Worker/CreateVolume with the id \"Not/An-Id\"")
}

func runUnknownWorker(ctx context.Context, c *C) {
	w := c.wired(ctx)
	id, volume := string(c.VolumeID()), w.volume(ctx)
	const nobody = "nobody/here"
	for what, call := range map[string]func() error{
		"Worker/Status": func() error {
			_, err := w.control.Call(ctx, "Worker/Status", wire.Message{"worker": nobody})
			return err
		},
		"Worker/CreateVolume": func() error {
			c.tracker.add(creation{sdk.KindVolume, id, c.main})
			_, err := w.control.Call(ctx, "Worker/CreateVolume", wire.Message{"worker": nobody, "id": id, "token": "t"})
			return err
		},
		"Worker/ListVolumes": func() error {
			_, err := w.ask(ctx, "Worker/ListVolumes", wire.Message{"worker": nobody}).Rest()
			return err
		},
		"Worker/DestroyVolume": func() error {
			_, err := w.control.Call(ctx, "Worker/DestroyVolume", wire.Message{"worker": nobody, "id": volume})
			return err
		},
		"Data/StreamOut": func() error {
			_, err := w.ask(ctx, "Data/StreamOut", wire.Message{"worker": nobody, "volume": volume}).Rest()
			return err
		},
	} {
		err := call()
		w.wants(err, "CLASS_NOT_FOUND", "", "a call says on which worker: another one is never meant", "%s of a worker that is not there", what)
		if d := wire.Detail(err); d != nil && d.Text("kind") != "worker" {
			c.Errorf("NotFound says what was not found", "%s of a worker that is not there: the error is of kind %q", what, d.Text("kind"))
		}
	}
}
