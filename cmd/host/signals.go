package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interrupted is the cause of a context that a signal has ended.
type interrupted struct{ os.Signal }

func (i interrupted) Error() string { return "interrupted by " + i.name() + " before it was done" }

// name is how people know the signal.
func (i interrupted) name() string {
	switch i.Signal {
	case os.Interrupt:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	}
	return i.String()
}

// watchSignals ends a context at the first signal that asks slipway to end, and closes hurry at the second; the third has its usual
// effect. INT and HUP stay ignored where slipway was started so, as by nohup. A closed pipe is an error of the write, not a
// signal.
func watchSignals(end context.CancelCauseFunc) (hurry <-chan struct{}, stop func()) {
	pipes := make(chan os.Signal, 1) // nobody reads it; ignoring the signal instead would be inherited by plugins
	signal.Notify(pipes, syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	second, done, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case s := <-signals:
			end(interrupted{s})
		case <-done:
			return
		}
		select {
		case <-signals:
			close(second)
			signal.Stop(signals)
		case <-done:
		}
	}()
	return second, func() { // signals stay caught: what is left to do then is not worth leaving undone
		close(done)
		<-ended
	}
}
