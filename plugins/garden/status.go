package garden

import (
	"context"
	"errors"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/sdk"
)

// pingTimeout bounds the look at a server. A host asks every few seconds, and waits ten for the answer: so one server that hangs must have been given
// up before that, or the host would hear nothing of the other one.
const pingTimeout = 6 * time.Second

// Status asks both servers, and at first makes a container to see what they can.
func (w *worker) Status(ctx context.Context) (sdk.Status, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Status{}, err
	}
	s := sdk.Status{
		Health: sdk.Healthy, Encodings: w.store.Encodings(), Zone: w.store.Zone(),
		Capacity: sdk.Resources{Containers: int64(w.config.MaxContainers)},
	}
	var gardenErr, storeErr error
	g, pinging := errgroup.WithContext(ctx)
	pinging, cancel := context.WithTimeout(pinging, pingTimeout)
	defer cancel()
	g.Go(func() error { gardenErr = w.garden.Ping(pinging); return nil })
	g.Go(func() error {
		if storeErr = w.store.Ping(pinging); storeErr == nil {
			s.VolumeIncarnation, storeErr = w.store.Incarnation(pinging)
		}
		return nil
	})
	_ = g.Wait()
	if ctx.Err() != nil {
		return sdk.Status{}, ctx.Err()
	}
	if gardenErr != nil || storeErr != nil {
		w.unsure()
	}
	gardenErr, storeErr = inTime(gardenErr, w.garden.String()), inTime(storeErr, w.store.String())
	if err := errors.Join(gardenErr, storeErr); err != nil {
		s.Health, s.Reason = sdk.Away, strings.ReplaceAll(err.Error(), "\n", "; ")
		if storeErr == nil && errors.Is(gardenErr, sdk.Unavailable) { // all that is about volumes works
			s.Health, s.ContainersAway, s.Features = sdk.Degraded, true, w.presumed(ctx)
		}
		return s, nil
	}
	a, err := w.able(ctx)
	if ctx.Err() != nil {
		return sdk.Status{}, ctx.Err()
	}
	if err != nil {
		s.Health, s.Reason = sdk.Away, "no container can be made to see what the servers can: "+err.Error()
		if errors.Is(err, sdk.Exhausted) { // full, but not away: what runs can be followed, and must not count as lost
			s.Health, s.Features = sdk.Degraded, w.presumed(ctx)
		}
		return s, nil
	}
	s.Features = a.features
	// Garden has no id of its own. Containers go with their machine's running and with its disk; what else may have taken them away, nobody can
	// tell, and for that there is the host's time of grace.
	if a.boot != "" {
		s.ContainerIncarnation = s.VolumeIncarnation + "-" + a.boot
	}
	return s, nil
}

// inTime says what the end of a ping's time means.
func inTime(err error, server string) error {
	if errors.Is(err, context.DeadlineExceeded) && sdk.ClassOf(err) == "" {
		return sdk.NewUnavailable(err, "%s does not answer within %v", server, pingTimeout)
	}
	return err
}
