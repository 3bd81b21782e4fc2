package lifecycle

import (
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var tables = []*Table{&Containers, &Volumes, &Processes, &Runs}

// TestTables: an event has one meaning in a state; every state can be reached from nothing, and can be left until nothing is there.
func TestTables(t *testing.T) {
	for _, table := range tables {
		seen := make(map[string]bool)
		next := make(map[string][]string)
		for _, l := range table.Lines {
			for _, from := range l.From {
				if key := string(l.Event) + " in " + from; seen[key] {
					t.Errorf("%s: two lines for %s", table.Kind, key)
				} else {
					seen[key] = true
				}
				if l.To != Stays {
					next[from] = append(next[from], l.To)
				}
			}
			if l.By == "" || len(l.From) == 0 {
				t.Errorf("%s: %s says too little", table.Kind, l.Event)
			}
		}
		for _, s := range table.States() {
			if !leads(next, None, s) {
				t.Errorf("%s: nothing becomes %s", table.Kind, s)
			}
			if !leads(next, s, None) {
				t.Errorf("%s: what is %s is so for ever", table.Kind, s)
			}
		}
	}
}

// leads tells whether there is a way from a state to another.
func leads(next map[string][]string, from, to string) bool {
	seen, todo := map[string]bool{from: true}, []string{from}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		if slices.Contains(next[at], to) {
			return true
		}
		for _, s := range next[at] {
			if !seen[s] {
				seen[s] = true
				todo = append(todo, s)
			}
		}
	}
	return false
}

func TestNext(t *testing.T) {
	for _, c := range []struct {
		table *Table
		from  string
		event Event
		to    string
	}{
		{&Containers, None, Claimed, ContainerCreating},
		{&Containers, ContainerLost, Doomed, Stays},
		{&Volumes, VolumeDestroying, Destroyed, None},
		{&Processes, ProcessLost, Exited, Stays},
	} {
		if to, err := c.table.Next("x", c.from, c.event); err != nil || to != c.to {
			t.Errorf("%s %q %s: %q %v, want %q", c.table.Kind, c.from, c.event, to, err, c.to)
		}
	}
	for _, c := range []struct {
		table *Table
		from  string
		event Event
		says  string
	}{
		{&Containers, ContainerLost, Made, "container x is lost by now: it cannot be made"},
		{&Volumes, None, Sealed, "volume x is not there any more: it cannot be sealed"},
		{&Runs, RunEnded, Begun, "run x is ended by now: it cannot be begun"},
	} {
		_, err := c.table.Next("x", c.from, c.event)
		if late, ok := errors.AsType[*Error](err); !ok || late.State != c.from || err.Error() != c.says {
			t.Errorf("%v, want %s", err, c.says)
		}
	}
}

var write = flag.Bool("write", false, "write the tables into ARCHITECTURE.md")

// TestPage holds what people read against the tables: go test ./host/lifecycle -write brings it up to date.
func TestPage(t *testing.T) {
	const page, begin, end = "../../ARCHITECTURE.md", "<!-- lifecycle: begin -->\n", "<!-- lifecycle: end -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	told, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks around the tables", page)
	}
	if told == Markdown() {
		return
	}
	if !*write {
		t.Fatalf("%s is not what the tables say: run go test ./host/lifecycle -write", page)
	}
	if err := os.WriteFile(page, []byte(before+begin+Markdown()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
