package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// verdict is what the host makes of the error that following a process ended with.
type verdict uint8

const (
	verdictPause   verdict = iota // nothing is known of the process: follow again after a while
	verdictAway                   // so is the worker: have it looked at, then follow again
	verdictAgain                  // follow again at once
	verdictNoStdin                // the client's stdin failed: follow again without it
	verdictGap                    // what comes next was dropped
	verdictMissing                // the container was not found: believe that only after the grace
	verdictEnded                  // it was ended before: its container's row says how
	verdictLost                   // the container's own record says that nobody can tell how it ended
)

// followVerdict judges an error of following (rules 3, 4 and 14). tooLong says that it has failed without a sign of the process for
// as long as the host waits for anything: only then is a defect, which says nothing of the process, taken for its loss.
func followVerdict(err error, tooLong bool) (_ verdict, reason string) {
	var gone *WorkerGoneError
	var local localError
	var stdin stdinError
	var told badExitError
	switch {
	case errors.As(err, &told): // its plugin's defect: what else it tells of this process is worth no more
		return verdictLost, told.Error()
	case errors.Is(err, errEndedWithoutExit):
		return verdictEnded, "its output was ended without an exit"
	case errors.Is(err, errContainerOver):
		return verdictEnded, errContainerOver.Error()
	case errors.Is(err, errFollowAgain):
		return verdictAgain, ""
	case errors.As(err, &stdin):
		return verdictNoStdin, ""
	case errors.As(err, &local): // this machine's trouble, a full disk perhaps: the process waits once its journal is full
		return verdictPause, ""
	case errors.As(err, &gone):
		return verdictLost, gone.Error()
	case sdk.IsNotFound(err, sdk.KindContainer):
		return verdictMissing, ""
	case errors.Is(err, sdk.ReasonAbandoned):
		return verdictLost, "nobody was left to see how it ended"
	case errors.Is(err, sdk.ReasonRecordLost), sdk.IsNotFound(err, sdk.KindProcess):
		return verdictLost, err.Error()
	case errors.Is(err, sdk.ReasonOutputGap):
		return verdictGap, ""
	case tooLong:
		return verdictLost, fmt.Sprintf("following it failed: %v", err)
	case errors.Is(err, sdk.Unavailable), errors.Is(err, sdk.ReasonSuperseded):
		// What superseded it is this host's own follower on a newer connection, or another host's on a copy of the state directory:
		// following again settles the first, and shows the second by its repetition.
		return verdictAway, ""
	}
	return verdictPause, ""
}

// errEndedWithoutExit: an earlier host ended the stored output of a process that it gave up, and died before its row.
var errEndedWithoutExit = errors.New("its stored output was ended without an exit")

// errContainerOver: whatever its plugin tells of a process whose container is over, nothing more comes of it.
var errContainerOver = errors.New("its container is over, and its end was not told")

// errFollowAgain: the process has got a stdin meanwhile.
var errFollowAgain = errors.New("follow again")

// badExitError says that a plugin told an exit that no process can have had. How the process ended is then not known.
type badExitError struct{ error }

func (e badExitError) Error() string {
	return "its plugin told an end that is none: " + e.error.Error()
}

func (e badExitError) Unwrap() error { return e.error }

// toldExit is what a plugin has told of the end of a process. Here, and nowhere else, that becomes the host's word: the first counts,
// whatever comes after it, and only if a process can have ended so.
type toldExit struct {
	any  bool
	exit sdk.Exit
}

// admit gives the exit that counts after the plugin has told one more, a badExitError if it is none. What differs from the first is a
// defect, which is for the log.
func (t *toldExit) admit(e sdk.Exit) (_ sdk.Exit, defect, err error) {
	if !t.any {
		t.any, t.exit = true, keepable(e)
	}
	if e.Code != t.exit.Code || e.Signal != t.exit.Signal || e.Reason != t.exit.Reason {
		defect = fmt.Errorf("it has told that a process ended with code %d, signal %.20q, reason %.20q, and then with code %d, signal %.20q, reason %.20q: the first counts",
			t.exit.Code, t.exit.Signal, t.exit.Reason, e.Code, e.Signal, e.Reason)
	}
	if err := t.exit.Validate(); err != nil {
		return sdk.Exit{}, defect, badExitError{err}
	}
	return t.exit, defect, nil
}

// maxWords is how much is kept of what a runtime says of an end, or of how far it is, in bytes.
const maxWords = 4 << 10

// fewWords is the beginning of what a runtime says.
func fewWords(text string) string {
	if len(text) <= maxWords {
		return text
	}
	return strings.ToValidUTF8(text[:maxWords], "") + "..."
}

// keepable is an exit without what is for display only and cannot be stored: whatever its plugin makes of that, the end itself counts.
func keepable(e sdk.Exit) sdk.Exit {
	e.Message = fewWords(e.Message)
	for _, at := range []*time.Time{&e.StartedAt, &e.EndedAt} {
		if y := at.UTC().Year(); y < 0 || y > 9999 { // JSON has none of them
			*at = time.Time{}
		}
	}
	return e
}

// localError marks a failure on this machine while following: the worker has no part in it.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

// missing judges a process whose container was not found. Whoever destroyed it here has said so in its row, and so has a
// change of incarnation. Otherwise the worker may be wrong for a while: only after the grace and a second list is it believed.
func (p *Process) missing(ctx context.Context, out *spool.Writer) (Outcome, bool) {
	since := time.Now()
	soon := p.worker.endsWithPlugin() // whose process may be ending with all that it has: that is known in a moment
	for {
		if outcome, ended := p.judge(ctx, out); ended {
			return outcome, true
		}
		wait := min(time.Until(since.Add(p.h.cfg().Timing.MissingGrace)), statusEvery)
		if wait > 0 {
			if soon {
				wait = min(wait, slowCall)
			} else {
				p.tellPaused(fmt.Errorf("worker %s does not know its container; it may come back", p.worker.name))
			}
			soon = false
			select {
			case <-time.After(wait):
			case <-p.aborting.Done():
			case <-ctx.Done():
				return Outcome{}, false
			}
		}
		there, err := p.listed(ctx)
		if err != nil || there {
			return Outcome{}, false
		}
		if wait <= 0 {
			reason := fmt.Sprintf("its container has been missing for %s", time.Since(since).Round(time.Second))
			err := p.h.loseContainer(ctx, string(p.container), reason)
			if errors.Is(err, errChanged) { // its row tells how, now
				continue
			}
			if lacksRoom(err) {
				return Outcome{}, false // it is judged anew once there is some
			}
			if err != nil {
				return Outcome{Err: err}, true
			}
			return p.lost(ctx, out, reason), true
		}
	}
}

// containerDestroyed is why a process is aborted where nobody has said more.
const containerDestroyed = "its container was destroyed"

// judge ends the process if its container's row tells how.
func (p *Process) judge(ctx context.Context, out *spool.Writer) (Outcome, bool) {
	row, err := p.row(ctx)
	if err != nil {
		return Outcome{Err: err}, true
	}
	switch row.State {
	case lifecycle.ContainerDestroying, lifecycle.ContainerDestroyed:
		told, err := p.h.processRow(ctx, p.id) // by an earlier host, perhaps
		if err != nil {
			return Outcome{Err: err}, true
		}
		if reason := context.Cause(p.aborting); reason != nil {
			told.Reason = reason.Error()
		}
		told.Reason = cmp.Or(told.Reason, containerDestroyed)
		return p.ended(ctx, out, lifecycle.Aborted, told.Reason, abortedError(p.owner, told)), true
	case lifecycle.ContainerLost:
		return p.lost(ctx, out, row.Reason), true
	}
	return Outcome{}, false
}

func (p *Process) row(ctx context.Context) (row store.Container, err error) {
	err = p.h.store.View(ctx, func(tx *store.Tx) error {
		row, err = tx.Container(string(p.container))
		return err
	})
	return row, err
}

func (p *Process) listed(ctx context.Context) (there bool, err error) {
	err = p.worker.call(ctx, "list containers", func(ctx context.Context, conn sdk.Worker) error {
		there = false
		return conn.ListContainers(ctx, sdk.Filter{ID: string(p.container)}, func(sdk.ContainerInfo) error {
			there = true
			return nil
		})
	})
	return there, err
}
