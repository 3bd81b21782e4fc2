// Package lifecycle has the tables of what the host keeps rows of: which state may follow which, by what event, who may cause it, and what is
// owed from then on. It is data and a look-up. What follows a transition, such as the call to a worker, is the host's, and so is the row.
package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// None is the state of what has no row: it was never there, or nothing is left of it.
const None = ""

// Stays is, in place of a state, that an event comes too late to change anything: the row is not written.
const Stays = "-"

// Event is what happens to a thing.
type Event string

// Line says what one event makes of a thing in one of some states.
type Line struct {
	Event Event
	From  []string
	To    string // a state, None or Stays
	By    string // who may cause it
	Owed  string // what has to be done from then on until it has worked, by whoever is there; empty: nothing
}

// Table has the lines of one kind of thing. An event that no line has for a state cannot happen in it.
type Table struct {
	Kind  string // as sdk.Kind
	Lines []Line

	// PowerSafe are the events that are on disk before anything follows from them: were they undone by a loss of power, something would be made or
	// started a second time. All others survive a kill of the host only.
	PowerSafe []Event
}

// Next gives the state that an event leads to, which may be Stays. What the table does not have is an *Error.
func (t *Table) Next(id, from string, e Event) (to string, err error) {
	for _, l := range t.Lines {
		if l.Event == e && slices.Contains(l.From, from) {
			return l.To, nil
		}
	}
	return "", &Error{Kind: t.Kind, ID: id, State: from, Event: e}
}

// States lists the states of the table in the order in which they appear, without None.
func (t *Table) States() (out []string) {
	for _, l := range t.Lines {
		for _, s := range append(slices.Clone(l.From), l.To) {
			if s != None && s != Stays && !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// Error says that an event came to a thing that is in a state in which it cannot: most often another was quicker.
type Error struct {
	Kind, ID string
	State    string
	Event    Event
}

func (e *Error) Error() string {
	if e.State == None {
		return fmt.Sprintf("%s %s is not there any more: it cannot be %s", e.Kind, e.ID, e.Event)
	}
	return fmt.Sprintf("%s %s is %s by now: it cannot be %s", e.Kind, e.ID, e.State, e.Event)
}

// Markdown gives all tables, for people.
func Markdown() string {
	var b strings.Builder
	for _, t := range []*Table{&Containers, &Volumes, &Processes, &Runs} {
		fmt.Fprintf(&b, "| a %s that is | when it was | is then | by | owed from then on |\n|---|---|---|---|---|\n", t.Kind)
		for _, l := range t.Lines {
			from := make([]string, len(l.From))
			for i, s := range l.From {
				from[i] = said(s)
			}
			event := string(l.Event)
			if slices.Contains(t.PowerSafe, l.Event) {
				event += ", also through a loss of power"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", event, strings.Join(from, ", "), said(l.To), l.By, cmp.Or(l.Owed, "nothing"))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func said(state string) string {
	switch state {
	case None:
		return "not there"
	case Stays:
		return "as it was"
	}
	return state
}
