package conformance

import (
	"context"

	"github.com/slipway-run/slipway/sdk"
)

// Own is an instance of the target that one case has to itself, so that it may crash it.
type Own struct {
	W sdk.Worker // tracked as C.W is; after Crash it is the restarted plugin's

	c    *C
	inst *Instance
	on   *slot
}

// Own opens an instance. It is closed after the case's clean-up.
func (c *C) Own(ctx context.Context) *Own {
	inst, err := c.suite.target.Open(withScale(ctx, c.suite.opts.TimeScale))
	if err != nil {
		c.Broken(err)
	}
	o := &Own{c: c, inst: inst, on: &slot{}}
	o.W = guard{c: c, on: o.on}
	if !o.use(inst.Runtime) {
		inst.Close()
		c.Fatalf("a worker of one instance is there in the next", "instance of the case's own: no worker %q", c.suite.name)
	}
	c.Cleanup(o.close)
	c.OK(c.suite.bring(ctx, o.on), "bringing the probe to an instance of the case's own")
	return o
}

// Crash kills the plugin and goes on with its next start.
func (o *Own) Crash(ctx context.Context) {
	if o.inst.Crash == nil {
		o.c.EnvMissing("the target's plugin cannot be killed and restarted")
	}
	old := o.on.get()
	rt, err := o.inst.Crash(ctx)
	if err != nil {
		o.c.Fatalf("a plugin that was killed must start again: a host's workers hang on it", "after kill -9: %v", err)
	}
	o.c.Cleanup(func() { old.Close() }) // when no call is on it any more; its plugin is gone, so its error says nothing
	if !o.use(rt) {
		o.c.Fatalf("workers come back with their plugin", "after kill -9 there is no worker %q", o.c.suite.name)
	}
	o.c.OK(o.c.suite.bring(ctx, o.on), "bringing the probe after kill -9, where it is gone")
}

func (o *Own) use(rt sdk.Runtime) bool {
	w, err := rt.Worker(o.c.suite.name)
	if err != nil {
		return false
	}
	o.on.set(w)
	return true
}

func (o *Own) close() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.c.ctx), o.c.suite.opts.CleanupTimeout)
	defer cancel()
	if err := o.c.suite.takeAway(ctx, o.on); err != nil {
		o.c.violation("1e", "destroying must succeed, whatever state the thing is in: nothing else frees the worker", "cleaning up: %v", err)
	}
	o.on.get().Close()
	o.inst.Close()
}
