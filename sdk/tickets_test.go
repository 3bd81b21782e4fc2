package sdk_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// A ticket works once, until its last moment, and old ones do not keep new ones from being given.
func TestTickets(t *testing.T) {
	testkit.Bubble(t, func(t testing.TB) {
		var all sdk.Tickets[int]
		issue := func(n int) string {
			t.Helper()
			secret, err := all.Issue(n)
			if err != nil {
				t.Fatal(err)
			}
			return secret
		}
		first, second, third := issue(1), issue(2), issue(3)
		if got, err := all.Redeem(first); err != nil || got != 1 {
			t.Errorf("%d, %v", got, err)
		}
		for _, secret := range []string{first, "", "guessed"} {
			if got, err := all.Redeem(secret); !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonSpec) || got != 0 {
				t.Errorf("what was not issued, or is used, gives %d, %v", got, err)
			}
		}
		time.Sleep(sdk.TicketLife)
		if got, err := all.Redeem(second); err != nil || got != 2 {
			t.Errorf("at its last moment a ticket gives %d, %v", got, err)
		}
		time.Sleep(time.Nanosecond)
		if got, err := all.Redeem(third); !errors.Is(err, sdk.Invalid) || got != 0 {
			t.Errorf("an old ticket gives %d, %v", got, err)
		}
		for range sdk.MaxTickets {
			issue(4)
		}
		if _, err := all.Issue(5); !errors.Is(err, sdk.Exhausted) {
			t.Errorf("one more than may be out: %v", err)
		}
		time.Sleep(sdk.TicketLife + time.Nanosecond)
		if got, err := all.Redeem(issue(6)); err != nil || got != 6 {
			t.Errorf("when all others are old: %d, %v", got, err)
		}
	})
}
