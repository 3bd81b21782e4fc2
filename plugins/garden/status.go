package garden

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/sdk"
)

// pingTimeout bounds the look at a server. A host asks every few seconds, and waits ten for the answer: so one server that hangs must have been given
// up before that, or the host would hear nothing of the other one.
const pingTimeout = 6 * time.Second

// spareTime is how long before the end of its time a status waits no longer for the look at what the servers can. A look that hangs would otherwise leave the
// host without any status, as if the worker were away.
const spareTime = 2 * time.Second

// Status asks both servers, and at first makes a container to see what they can. The worker is away only if a server does not answer: where both do and no
// container can be made, what runs can be followed, and must not be given up.
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
	answering := ctx
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		answering, cancel = context.WithDeadline(ctx, end.Add(-w.spare))
		defer cancel()
	}
	a, err := w.able(answering)
	if ctx.Err() != nil {
		return sdk.Status{}, ctx.Err()
	}
	if err != nil {
		s.Health, s.Features = sdk.Degraded, w.presumed(ctx)
		s.Reason = "no container can be made to see what the servers can: " + err.Error()
		if answering.Err() != nil && errors.Is(err, answering.Err()) {
			s.Reason = fmt.Sprintf("no container can be made yet: %s and %s answer, and the look at what they can, for which a container is made, has not ended", w.garden, w.store)
		}
		return s, nil
	}
	s.Features = a.features
	if doubtful := w.doubtfulLimits(a); doubtful != "" {
		s.Health, s.Reason = sdk.Degraded, doubtful
	}
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

// doubtfulLimits says which of the operator's default limits may not hold, because none of that kind was seen to. They are asked of the server all the same:
// it may heed what no container can see.
func (w *worker) doubtfulLimits(a *abilities) string {
	var doubtful []string
	for _, l := range []struct {
		setting string
		set     bool
		feature sdk.Feature
	}{
		{"cpu", w.config.CPU != 0, sdk.FeatureLimitsCPU}, {"memory", w.config.Memory != 0, sdk.FeatureLimitsMemory}, {"pids", w.config.PIDs != 0, sdk.FeatureLimitsPIDs},
	} {
		if l.set && !slices.Contains(a.features, l.feature) {
			doubtful = append(doubtful, fmt.Sprintf("%q (%s)", l.setting, l.feature))
		}
	}
	if len(doubtful) == 0 {
		return ""
	}
	return fmt.Sprintf("%s was not seen to heed limits that are set as defaults: %s; containers that ask for none may run without: have the server limit them, or take the settings out",
		w.garden, strings.Join(doubtful, ", "))
}
