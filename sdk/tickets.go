package sdk

import (
	"crypto/rand"
	"maps"
	"sync"
	"time"
)

// TicketLife is how long a ticket of [Tickets] works, as long as the contract allows.
const TicketLife = 10 * time.Minute

// MaxTickets is how many tickets of [Tickets] can be out, issued and neither redeemed nor expired.
const MaxTickets = 4096

// Tickets keeps what a [PeerStreamer] needs to know again when somebody comes with a ticket of its: which volume it is for, say. Each works once, and for
// [TicketLife]. The zero value has none. Its methods may be called at the same time.
type Tickets[T any] struct {
	mu  sync.Mutex
	out map[string]issued[T]
}

type issued[T any] struct {
	what    T
	expires time.Time
}

// Issue gives the secret by which something is redeemed, a word that cannot be guessed. It is Exhausted while [MaxTickets] are out.
func (t *Tickets[T]) Issue(what T) (secret string, err error) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.out) >= MaxTickets {
		maps.DeleteFunc(t.out, func(_ string, old issued[T]) bool { return now.After(old.expires) })
	}
	if len(t.out) >= MaxTickets {
		return "", NewExhausted("", "%d tickets are out already, and at most so many are given; they expire after %v", MaxTickets, TicketLife)
	}
	if t.out == nil {
		t.out = make(map[string]issued[T])
	}
	secret = rand.Text()
	t.out[secret] = issued[T]{what, now.Add(TicketLife)}
	return secret, nil
}

// Redeem gives what a secret was issued for, once. Any other secret is Invalid (spec).
func (t *Tickets[T]) Redeem(secret string) (T, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	got, ok := t.out[secret]
	delete(t.out, secret)
	if !ok || time.Now().After(got.expires) {
		var none T
		return none, NewInvalid(ReasonSpec, "the ticket is not known, was used, or is older than %v; ask for another one", TicketLife)
	}
	return got.what, nil
}
