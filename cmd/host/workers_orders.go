package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/sdk"
)

// workerOrders adds the commands by which an operator says what a worker is to do.
func (a *app) workerOrders(c *cobra.Command) {
	for _, o := range []struct {
		use, short, long string
		drains           bool
		order            api.Order
	}{
		{"cordon", "Keep new work from a worker", "Keep new work from a worker. What runs there goes on.", false, api.Cordon},
		{"uncordon", "Let a worker take new work again, whatever it was told before", `Let a worker take new work again, whatever it was told before. Where something else keeps new work
from it, as that the configuration has it no more, the command says what.`, false,
			api.Uncordon},
		{"land", "Empty a worker that will come back", `Empty a worker that will come back: it takes no new work, what runs there ends by itself, and what steps
of runs under way still need of it is copied to other workers. The command waits until that is done; when it is interrupted, the order stays.`, true, api.Land},
		{"retire", "Empty a worker that will not come back", `Empty a worker that will not come back: as land does, but every artifact that is only there is copied, and
what is left on it is destroyed.`, true, api.Retire},
	} {
		var reason string
		var noWait bool
		sub := &cobra.Command{
			Use: o.use + " WORKER", Short: o.short, Long: o.long + "\n\nThe order is kept in the state directory (--state), and holds until another is given.",
			Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				if a.stateDir == "" {
					return usageError{fmt.Errorf("workers %s needs --state DIR: without one the order would be forgotten at once", o.use)}
				}
				return a.withBackend(c.Context(), readyTime, func(b backend) error {
					err := b.orderWorker(c.Context(), args[0], o.order, reason)
					if sdk.IsNotFound(err, sdk.KindWorker) {
						return usageError{err}
					}
					if err == nil && o.order == api.Uncordon {
						return a.tellIdle(c.Context(), b, args[0])
					}
					if err != nil || !o.drains || noWait {
						return err
					}
					return a.awaitDrained(c.Context(), b, args[0])
				})
			},
		}
		if o.use != "uncordon" {
			sub.Flags().StringVar(&reason, "reason", "", "`why`, for those who look at the worker")
		}
		if o.drains {
			sub.Flags().BoolVar(&noWait, "no-wait", false, "give the order and return")
		}
		c.AddCommand(sub)
	}
}

// tellIdle tells why a worker takes no new work though all that it was told was taken back.
func (a *app) tellIdle(ctx context.Context, b backend, worker string) error {
	reports, err := b.workers(ctx)
	if err != nil {
		return err
	}
	for _, r := range reports {
		if r.Name == worker && r.State != pool.Running {
			a.say(fmt.Sprintf("worker %s: what it was told is taken back, but it takes no new work yet: %s", worker, cmp.Or(r.Reason, r.Why, string(r.State))))
		}
	}
	return nil
}

func (a *app) awaitDrained(ctx context.Context, b backend, worker string) error {
	err := b.awaitDrained(ctx, worker, func(d host.Drain) {
		if !d.Done() {
			a.say(fmt.Sprintf("worker %s waits for %s", worker, d))
		}
	})
	if sdk.IsNotFound(err, sdk.KindWorker) { // it was one that the configuration has no more, and is forgotten
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("worker %s is not empty yet: the order stays, and is carried out while a host has the state directory open: %w", worker, err)
	}
	return err
}
