package conformance

import (
	"fmt"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// answer is what a call is answered with.
type answer struct {
	text   string     // in the tables of RULES.md and worker.proto
	class  sdk.Class  // empty: the text says all there is
	reason sdk.Reason // with FailedPrecondition
}

// containerState is what a container can be for those who call.
type containerState int

const (
	isMissing containerState = iota
	isHalfMade
	isReady
	isGone // listed as gone, and its record can be read
	isLost // listed as gone, and its record cannot be read
)

// recordElseDead is the answer of a call on one process in a container that is gone, and whose record may have it.
const recordElseDead = "its record, else dead"

// containerStates are the heads of the table's columns.
func containerStates() []string {
	return []string{"not there", "creating", "ready", "gone", "gone, record lost"}
}

// containerCall is a row: a call on a container, and its answer in each state.
type containerCall struct {
	call string
	in   [5]answer
}

// containerAnswers is the table of what a call on a container is answered with, by the container's state.
func containerAnswers() []containerCall {
	says := func(text string) answer { return answer{text: text} }
	missing := answer{"NotFound", sdk.NotFound, ""}
	other := answer{"AlreadyExists", sdk.AlreadyExists, ""}
	because := func(r sdk.Reason) answer { return answer{string(r), sdk.FailedPrecondition, r} }
	creating, dead, lost := because(sdk.ReasonCreating), because(sdk.ReasonDead), because(sdk.ReasonRecordLost)
	done, process, record, exited := says("success"), says("its process"), says("its record"), says(recordElseDead)
	return []containerCall{
		{"CreateContainer, its token", [5]answer{says("makes it"), says("completes it"), done, dead, dead}},
		{"CreateContainer, another", [5]answer{says("makes it"), other, other, other, other}},
		{"StartProcess", [5]answer{missing, creating, process, dead, dead}},
		{"ListProcesses", [5]answer{missing, creating, done, record, lost}},
		{"FollowProcess", [5]answer{missing, creating, process, exited, lost}},
		{"SignalProcess", [5]answer{missing, creating, process, exited, lost}},
		{"ResizeProcess", [5]answer{missing, creating, process, exited, lost}},
		{"DestroyContainer", [5]answer{done, done, done, done, done}},
	}
}

// processCall is a row of the table of a ready container's processes.
type processCall struct {
	call string
	in   [5]string
}

func processStates() []string {
	return []string{"never started", "being started", "running", "exited", "abandoned"}
}

// processAnswers is what "its process" and "its record" stand for.
func processAnswers() []processCall {
	const either = "as never started, or waits and answers as it is then"
	return []processCall{
		{"StartProcess, its token", [5]string{"starts it", "waits for that start and answers as it does", "success", "success", "success"}},
		{"StartProcess, another", [5]string{"starts it", "AlreadyExists, or waits and answers as it is then", "AlreadyExists", "AlreadyExists", "AlreadyExists"}},
		{"ListProcesses", [5]string{"not listed", "not listed, or running", "running", "exited, with its exit", "abandoned"}},
		{"FollowProcess", [5]string{"NotFound of the process", either, "its journal as it comes, then its exit", "its journal, then its exit", "its journal, then abandoned"}},
		{"SignalProcess", [5]string{"NotFound of the process", either, "sends it", "success", "success"}},
		{"ResizeProcess", [5]string{"NotFound of the process", either, "sets it, or FailedPrecondition", "success", "success"}},
	}
}

// protoTable is the table of containers as a comment of worker.proto.
func protoTable() string {
	widths := [6]int{28, 13, 16, 16, 23, 0}
	words := strings.NewReplacer("AlreadyExists", "already exists", "NotFound", "not found")
	var b strings.Builder
	row := func(first string, cells []string) {
		line := fmt.Sprintf("%-*s", widths[0], first)
		for i, c := range cells {
			line += fmt.Sprintf("%-*s", widths[i+1], c)
		}
		b.WriteString(strings.TrimRight("//   "+line, " ") + "\n")
	}
	row("", containerStates())
	for _, c := range containerAnswers() {
		var cells []string
		for _, a := range c.in {
			cells = append(cells, words.Replace(a.text))
		}
		row(c.call, cells)
	}
	return b.String()
}
