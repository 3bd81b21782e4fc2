// Package pool decides which worker takes a container.
//
// It is policy over values. An [Index] is what is known about the workers, kept
// current by events: which exist, which contents each holds, who holds a lease on
// which. A [Placer] is the policy: [Placer.Choose] names the best worker for a
// [Spec], [Placer.Explain] says of every worker why or why not, and both ask the
// same predicates. A [Queue] adds waiting: [Queue.Acquire] chooses and leases in
// one step, and where every compatible worker is full it waits for a place. Who is
// passed too often by others that claim less has a worker reserved.
//
// A worker takes a spec if it is compatible (running, and of the right runtime,
// platform, tags, team and features) and not full. Of those that do, the
// spec's own team's come before shared ones; then the strategies of the chain for
// the spec's kind decide, the first being primary and each later one breaking the
// ties that are left; chance decides the rest.
//
// Capacity is held by leases keyed by their owner, never by bare counters:
// acquiring or releasing twice is the same as once, so no count can drift.
// Volumes are counted one by one, from before they are made until they are
// gone, and what leases claim of those still to be made counts with them.
//
// Nothing here talks to a worker, a store or a clock of its own beyond the limits
// of waits and reservations, and no goroutine is started: a waiter is its caller's
// goroutine, and it is woken by the goroutine that reported the event.
package pool
