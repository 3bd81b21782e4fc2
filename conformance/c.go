package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"google.golang.org/grpc/status"

	"github.com/slipway-run/slipway/sdk"
)

// C is what one run of a case works with. Its methods may be called from the goroutines of [C.Go] too, but those that end the case
// then end that goroutine only. Callbacks of a worker's methods run wherever the worker likes: they may call Errorf and
// nothing that ends anything.
type C struct {
	// W is the worker. What is created through it is destroyed after the case, newest first.
	W sdk.Worker
	// Status is what the worker said of itself when the run began.
	Status sdk.Status
	// Commands are what to run in containers.
	Commands Commands
	// Rand gives the same numbers to the same case under the same seed. It is for the case's own goroutine.
	Rand *rand.Rand
	// Short asks for shorter loops; see [C.Times].
	Short bool

	suite   *suite
	kase    Case
	prefix  string // of ids
	main    *slot
	tracker tracker
	wg      sync.WaitGroup
	ctx     context.Context

	mu       sync.Mutex
	closed   bool // the case was given up: what it still says is not heard
	next     int
	failures []Failure
	log      []string
	status   Status // when it is decided otherwise than by failures
	note     string
	after    []func()
}

// Cleanup has f called once the case has ended and what it made is destroyed, the latest first.
func (c *C) Cleanup(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after = append(c.after, f)
}

func (c *C) takeCleanups() []func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	after := c.after
	c.after = nil
	slices.Reverse(after)
	return after
}

// VolumeID makes an id that nobody has used.
func (c *C) VolumeID() sdk.VolumeID { return sdk.VolumeID(c.id("v")) }

// ContainerID makes an id that nobody has used.
func (c *C) ContainerID() sdk.ContainerID { return sdk.ContainerID(c.id("c")) }

// ProcessID makes an id that nobody has used.
func (c *C) ProcessID() sdk.ProcessID { return sdk.ProcessID(c.id("p")) }

// idPrefix begins every id that the suite makes.
const idPrefix = "cf-"

func (c *C) id(kind string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	return fmt.Sprintf("%s-%s%d", c.prefix, kind, c.next)
}

// Labels gives the labels that the suite puts on all it makes.
func (c *C) Labels() map[string]string {
	return map[string]string{sdk.LabelInstallation: c.suite.installation(), "slipway.conformance.case": c.kase.ID}
}

// Times shortens the number of repetitions where the user asked for it.
func (c *C) Times(n int) int {
	if c.Short && n >= 10 {
		return n / 10
	}
	return n
}

// Go runs f in a goroutine that the case awaits. Its context ends with the case.
func (c *C) Go(f func(ctx context.Context)) {
	c.wg.Go(func() {
		defer c.recover()
		f(c.ctx)
	})
}

// Logf adds a line to the result.
func (c *C) Logf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.log = append(c.log, fmt.Sprintf(format, args...))
	}
}

// Errorf adds a failure and goes on. Why says which promise is broken and what follows for a host.
func (c *C) Errorf(why, format string, args ...any) {
	promise := ""
	if len(c.kase.Promises) > 0 {
		promise = c.kase.Promises[0]
	}
	c.violation(promise, why, format, args...)
}

// Fatalf is Errorf and ends the case.
func (c *C) Fatalf(why, format string, args ...any) {
	c.Errorf(why, format, args...)
	runtime.Goexit()
}

// Failed tells whether there is a failure already.
func (c *C) Failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.failures) > 0
}

const maxFailures = 20 // of one case: more of them help nobody

func (c *C) violation(promise, why, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.failures) >= maxFailures {
		return
	}
	c.failures = append(c.failures, Failure{What: fmt.Sprintf(format, args...), Why: why, Promise: promise})
}

// timeUp puts a failure before all others: once the time is up, the rest of them follow from that.
func (c *C) timeUp(why, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.failures = slices.Insert(c.failures, 0, Failure{What: fmt.Sprintf(format, args...), Why: why, Promise: "2a"})
	}
}

// NotObservable ends the case without an answer.
func (c *C) NotObservable(reason string) { c.end(NotObservable, reason) }

// TooLong ends the case where the user asked for shorter loops.
func (c *C) TooLong() {
	if c.Short {
		c.end(Skipped, tooLong)
	}
}

// tooLong is why [Options.Short] leaves a case out.
const tooLong = "it takes long"

// NotOffered ends the case where the plugin does not do what the contract leaves to it.
func (c *C) NotOffered(what string) { c.end(Unsupported, what) }

// EnvMissing ends the case for want of something in the target.
func (c *C) EnvMissing(reason string) { c.end(EnvMissing, reason) }

// Unsupported ends the case because the worker rightly cannot do it.
func (c *C) Unsupported(f sdk.Feature) {
	c.end(Unsupported, fmt.Sprintf("the worker does not name %q", f))
}

// Broken ends the case because the suite itself went wrong.
func (c *C) Broken(err error) { c.end(Error, err.Error()) }

func (c *C) end(s Status, note string) {
	c.decide(s, note)
	runtime.Goexit()
}

func (c *C) decide(s Status, note string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.status == "" {
		c.status, c.note = s, note
	}
}

// recover turns a panic of the case's own code into an error of the suite.
func (c *C) recover() {
	if v := recover(); v != nil {
		buf := make([]byte, 8<<10)
		c.decide(Error, fmt.Sprintf("the case panicked: %v\n%s", v, buf[:runtime.Stack(buf, false)]))
	}
}

// close stops hearing the case and gives what it said.
func (c *C) close() (failures []Failure, log []string, s Status, note string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.failures, c.log, c.status, c.note
}

// OK ends the case unless err is nil.
func (c *C) OK(err error, what string, args ...any) {
	if err != nil {
		c.refused(err, what, args...)
	}
}

// whyRefused is why a failure that [C.OK] finds is one.
const whyRefused = "a call that nothing speaks against must succeed"

// refused ends the case for an error where none may come. Which promise that breaks depends on the error, not on the case.
func (c *C) refused(err error, what string, args ...any) {
	c.suite.life.heard(c.kase, err)
	c.violation("", whyRefused, "%s: got %s, want success", fmt.Sprintf(what, args...), describe(err))
	runtime.Goexit()
}

// WantClass fails the case unless err is of the class. It goes on either way.
func (c *C) WantClass(err error, class sdk.Class, why, what string, args ...any) bool {
	if errors.Is(err, class) {
		return true
	}
	c.suite.life.heard(c.kase, err)
	c.Errorf(why, "%s: got %s, want %s", fmt.Sprintf(what, args...), describe(err), class)
	return false
}

// WantReason fails the case unless err has the class and the reason. It goes on either way.
func (c *C) WantReason(err error, class sdk.Class, reason sdk.Reason, why, what string, args ...any) bool {
	if errors.Is(err, class) && errors.Is(err, reason) {
		return true
	}
	c.suite.life.heard(c.kase, err)
	c.Errorf(why, "%s: got %s, want %s (%s)", fmt.Sprintf(what, args...), describe(err), class, reason)
	return false
}

// WantNotFound fails the case unless err is NotFound of that kind of thing. It goes on either way.
func (c *C) WantNotFound(err error, kind sdk.Kind, why, what string, args ...any) bool {
	if sdk.IsNotFound(err, kind) {
		return true
	}
	c.Errorf(why, "%s: got %s, want not found of a %s", fmt.Sprintf(what, args...), describe(err), kind)
	return false
}

// describe shows an error with all that a host would decide by.
func describe(err error) string {
	if err == nil {
		return "success"
	}
	e, ok := errors.AsType[*sdk.Error](err)
	switch {
	case !ok && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return fmt.Sprintf("the error of a context: %v", err)
	case !ok:
		return fmt.Sprintf("an error without a class: %v", err)
	}
	s := string(e.Class)
	if e.Kind != "" {
		s += fmt.Sprintf(" of a %s", e.Kind)
	}
	if e.Reason != "" {
		s += fmt.Sprintf(" (%s)", e.Reason)
	}
	if e.Feature != "" {
		s += fmt.Sprintf(" (%s)", e.Feature)
	}
	if told, ok := status.FromError(e.Cause); ok && e.Cause != nil && e.Reason == "" && len(told.Details()) == 0 {
		s += " (by its code alone, without a slipway Error: see J15)"
	}
	return fmt.Sprintf("%s: %v", s, err)
}
