package conformance

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// WriteRules writes the contract's rules as a page of Markdown: each promise, who keeps it and which cases look, and the tables of answers.
func WriteRules(w io.Writer) error {
	var b strings.Builder
	b.WriteString(`# The rules of the contract

Generated from the tables of package conformance: ` + "`go test ./conformance -run TestRulesAreUpToDate -update`" + `. The documentation of package [sdk](doc.go) has each rule in a
sentence, and the [.proto files](proto/slipway/runtime/v1alpha1) what each call and field means.

Each promise has a number, which is its rule's, and a letter or two. They are stable: a promise's meaning does not change under its name, and a name is not used again. "plugin" are promises of a
plugin to its host, "host" those of the host to a plugin. Beside a plugin's promise stand the [conformance cases](../conformance/CASES.md) that hold it: one says "no case" where none does, and
"every case" where the suite looks whatever a case is about. What holds the host to its own promises are its own tests.
The suite runs eight cases at once (in a Go test as many as -parallel says), but for those that must be alone: a plugin serves several calls at a time from the first case on.
It gives a plugin 10 seconds from its start to the answer of Info, where a host gives 30; --time-scale (in Go Options.TimeScale) stretches that, too.

A class is written as in Go, on the wire it is upper case: NotFound is CLASS_NOT_FOUND. "Invalid (spec)" is the class Invalid with the reason spec. A *worker* is one place with one store of
volumes, where containers run. A *container* is where processes run. A *process* is one command in it; its *leader* is the program that was started, its *journal* what it wrote, with positions.
A *volume* is a tree of files on one worker. A *context* is on the wire a call's deadline and cancellation, a *callback* a message of the call.
`)
	held := heldBy()
	for _, r := range Rules() {
		fmt.Fprintf(&b, "\n## %d. %s\n\n%s\n\n| promise | of the | what | held by |\n|---|---|---|---|\n", r.Number, r.Title, r.Short)
		for _, p := range r.Promises {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", p.ID, p.By, cell(p.Text), held[p.ID])
		}
	}
	writeContainerTables(&b)
	writeHandling(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// heldBy tells for each promise which cases hold it.
func heldBy() map[string]string {
	cases := make(map[string][]string)
	for _, id := range inEveryCase() {
		cases[id] = append(cases[id], "every case")
	}
	for _, c := range Cases() {
		for _, p := range c.Promises {
			cases[p] = append(cases[p], c.ID)
		}
	}
	held := make(map[string]string)
	for _, r := range Rules() {
		for _, p := range r.Promises {
			switch {
			case p.By == ByHost:
				held[p.ID] = "the host's"
			case len(cases[p.ID]) == 0:
				held[p.ID] = "no case"
			default:
				held[p.ID] = strings.Join(cases[p.ID], ", ")
			}
		}
	}
	return held
}

func writeContainerTables(b *strings.Builder) {
	b.WriteString(`
## What a call on a container is answered with

By the state of the container. "creating", "dead" and "record-lost" are FailedPrecondition with that reason, "NotFound" is that of the container. Gone is a container that is listed as gone: its
keeper has ended and nothing can run in it any more. While DestroyContainer is under way, a call is answered as before it, as in a gone container, or as after it. The case C37 holds the first three
columns; tests of sdk/shim, sdk/machine, examples/chroot and the memory runtime hold the others.

`)
	head := append([]string{"call"}, containerStates()...)
	writeHead(b, head)
	for _, c := range containerAnswers() {
		b.WriteString("| " + c.call)
		for _, a := range c.in {
			b.WriteString(" | " + a.text)
		}
		b.WriteString(" |\n")
	}
	b.WriteString(`
"its process" is what the table below says. "its record" tells what the table below says of a process that has exited or is abandoned, and nothing else; "its record, else dead" does so where a
process has an exit, or is followed and is in the record, and else is FailedPrecondition (dead). A start of what such a record has may be answered by its token, success or AlreadyExists, in
place of dead: nothing runs for that. Streams into and out of volumes, and sealing, hang on the volume: whoever mounts it, and in whatever state
that is, matters only as 9c and 9d say.

`)
	writeHead(b, append([]string{"call"}, processStates()...))
	for _, p := range processAnswers() {
		b.WriteString("| " + p.call + " | " + strings.Join(p.in[:], " | ") + " |\n")
	}
	b.WriteString(`
"being started" is while a StartProcess of the same id is under way. It may fail, as Invalid for one, and then the process was never started (1i): whoever has waited with another token starts it then.
Of several starts at once with tokens of their own one wins at most (1d, held by D04), and of several with one token all end alike (3a, held by P20).
`)
}

func writeHandling(b *strings.Builder) {
	b.WriteString(`
## What the host does with an error

By its class, and by the call that ended with it. An error without a class, or with one that the host does not know, is Internal. A test of the host, TestHostDoesWhatTheRulesSay, holds it to these
words. What "fails" fails the step, which tells the class, the reason and the message; what was half made for it is destroyed.

`)
	writeHead(b, []string{"class", "CreateContainer", "StartProcess", "FollowProcess", "DestroyContainer, DestroyVolume"})
	for _, h := range hostHandling() {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", className(string(h.class)), h.create, h.start, h.follow, h.destroy)
	}
	b.WriteString(`
- Destroying what is gone succeeds (1e). NotFound there is a defect of the plugin, which the host does not take for success: it stays owed, and is tried again.
- A container is made anew with another id and with fresh volumes, five times at most. Where a call is repeated, it is the same one with the same token, for as long as the host waits for a worker
  that is away, which is five minutes if the operator says nothing else. Then the step goes to another worker if nothing was started, and what was started is lost.
- Where ListProcesses cannot tell either whether a process was started, that process is lost.
- A process that is followed again is lost once there has been no sign of it for as long. An exit that no process can have had makes it lost at once.
- Unavailable, and superseded from a follower, have the host ask for the worker's status at once. A retry_after lengthens the pause before a repetition, up to the bound that the host has for it.
- Every other call that ends as Unavailable is repeated in the same way, and with another class it fails whoever asked for it.
- What a step has made is not thrown away for a bad moment: sealing it is repeated after Exhausted and Internal, too, for as long as a worker that is away is waited for. If it then cannot be had,
  or sealing ends with another class, the step is lost.
`)
}

func writeHead(b *strings.Builder, cells []string) {
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(cells, " | "), strings.Repeat("---|", len(cells)))
}

// className is a class as Go has it.
func className(class string) string {
	words := strings.Fields(class)
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// WritePromise writes what a promise of the contract says, who keeps it and which cases hold it.
func WritePromise(w io.Writer, p Promise) error {
	r := Rules()[RuleOf(p.ID)-1]
	_, err := fmt.Fprintf(w, "%s (of the %s, rule %d: %s)\n%s\n\nHeld by: %s.\n", p.ID, p.By, r.Number, r.Title, p.Text, heldBy()[p.ID])
	return err
}

// explainPromises writes what a case holds a runtime to.
func explainPromises(b *strings.Builder, ids []string) {
	if len(ids) == 0 {
		b.WriteString("What plugin.proto asks of a program.\n")
	}
	for _, id := range slices.Sorted(slices.Values(ids)) {
		if p, ok := FindPromise(id); ok {
			fmt.Fprintf(b, "Promise %s. %s\n", p.ID, p.Text)
		}
	}
}
