package tools

import (
	"context"
	"strings"
	"time"
)

// timeout runs a command that must end in time: it gets a signal, and later, where that was asked for, is killed.
func timeout(t *tool) int {
	given, args := t.options("+s:k:fvp", map[string]rune{"signal": 's', "kill-after": 'k', "preserve-status": 'p', "foreground": 'f', "verbose": 'v'}, 125)
	signal, grace, preserve := "TERM", time.Duration(0), false
	duration := func(s string) time.Duration {
		d, ok := seconds(s)
		if !ok {
			t.die(125, "invalid time interval %s", quote(s))
		}
		return d
	}
	for _, o := range given {
		switch o.flag {
		case 's':
			signal = strings.TrimPrefix(strings.ToUpper(o.value), "SIG")
		case 'k':
			grace = duration(o.value)
		case 'p':
			preserve = true
		}
	}
	if len(args) < 2 {
		t.die(125, "a duration and a command are needed")
	}
	limit := duration(args[0])
	if t.Run == nil {
		t.die(126, "%s: commands cannot be run here", args[1])
	}
	t.out.Flush()
	ctx, kill := context.WithCancel(t.ctx)
	defer kill()
	signals := make(chan string, 1)
	var late, killed bool // read once the watcher is done
	watched, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		if limit == 0 || !elapses(ended, limit) {
			return
		}
		late = true
		if signal == "KILL" || signal == "9" {
			killed = true
			kill()
			return
		}
		signals <- signal
		if grace > 0 && elapses(ended, grace) {
			killed = true
			kill()
		}
	}()
	status := t.Run(ctx, Command{Argv: args[1:], Dir: t.Dir, Stdin: t.Stdin, Stdout: t.Stdout, Stderr: t.Stderr, Signals: signals})
	close(ended)
	<-watched
	t.check()
	switch {
	case killed:
		return 137
	case late && !preserve:
		return 124
	}
	return status
}

// elapses waits for a time, and says whether it passed before the end.
func elapses(ended <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ended:
		return false
	}
}

// through runs the command behind it as it is: nice and nohup change nothing here.
func through(t *tool) int {
	args := t.Args
	if t.Name == "nice" {
		_, args = t.options("+n:", map[string]rune{"adjustment": 'n'}, 125)
	}
	if len(args) == 0 {
		if t.Name == "nice" {
			t.printf("0\n")
			return 0
		}
		t.die(125, "a command is needed")
	}
	return t.run(args, nil, t.Stdin)
}
