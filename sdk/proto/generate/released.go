package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// promise is one thing that a file has on the wire: a message, a field, a value of an enumeration or a call.
type promise struct {
	kind string // message, field, value or call
	name string // in full; a value's is its enumeration's and its own
	is   string // what else of it must stay
	at   string // file and line, where it is written in a .proto of today
}

// line is how a promise stands in the file of what is released.
func (p promise) line() string { return strings.TrimSpace(p.kind + " " + p.name + " " + p.is) }

// parse reads such a line.
func parse(line string) (promise, error) {
	kind, rest, _ := strings.Cut(line, " ")
	name, is, _ := strings.Cut(rest, " ")
	switch kind {
	case "message", "field", "value", "call":
		return promise{kind: kind, name: name, is: is}, nil
	}
	return promise{}, fmt.Errorf("%q is no line of what is released", line)
}

// checkReleased says which promises of the file at path are broken by those of today.
func checkReleased(path string, now []promise) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var released []promise
	for line := range strings.Lines(string(text)) {
		p, err := parse(strings.TrimSpace(line))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		released = append(released, p)
	}
	broken := breaks(released, now)
	if len(broken) == 0 {
		return nil
	}
	return fmt.Errorf("plugins and hosts that are built already would not understand this any more (%s lists what they rely on):\n  %s\n"+
		"A break that is meant stands in CHANGELOG.md, and becomes the new measure by make released", filepath.Base(path), strings.Join(broken, "\n  "))
}

// writeReleased makes the promises of today those that are released.
func writeReleased(path string, now []promise) error {
	lines := make([]string, 0, len(now))
	for _, p := range now {
		lines = append(lines, p.line())
	}
	slices.Sort(lines)
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// breaks has a line for each released promise that does not hold now, with what to do. What was added breaks nobody.
func breaks(released, now []promise) (broken []string) {
	there := make(map[string]promise, len(now)) // by kind and name
	for _, p := range now {
		there[p.kind+" "+p.name] = p
	}
	var gone []string // messages: nobody has to be told of their fields as well
	for _, was := range released {
		if _, ok := there[was.kind+" "+was.name]; was.kind == "message" && !ok {
			gone = append(gone, was.name+".")
		}
	}
	for _, was := range released {
		is, ok := there[was.kind+" "+was.name]
		switch {
		case ok && is.is == was.is:
		case ok:
			broken = append(broken, fmt.Sprintf("%s: %s %s was released as %q and is now %q: %s", is.at, was.kind, was.name, was.is, is.is, remedy(was.kind)))
		case slices.ContainsFunc(gone, func(message string) bool { return was.kind != "call" && strings.HasPrefix(was.name, message) }):
		default:
			broken = append(broken, fmt.Sprintf("%s %s was released (%s) and is gone: %s", was.kind, was.name, was.is, remedy(was.kind)))
		}
	}
	return broken
}

// remedy says how to have what is wanted without the break.
func remedy(kind string) string {
	switch kind {
	case "field":
		return "have it as it was, with [deprecated = true] if nobody shall use it, and put what is new beside it, under a name and number of its own"
	case "call":
		return "have it as it was, and put what is new beside it, as a call of its own"
	case "value":
		return "have it as it was, and put what is new beside it, under a name and number of its own"
	default:
		return "have it as it was, and put what is new beside it, under a name of its own"
	}
}

// wireOf is what a file promises to who speaks it.
func wireOf(f protoreflect.FileDescriptor) (all []promise) {
	add := func(d protoreflect.Descriptor, kind, name, is string) {
		at := fmt.Sprintf("%s:%d", f.Path(), f.SourceLocations().ByDescriptor(d).StartLine+1)
		all = append(all, promise{kind: kind, name: name, is: is, at: at})
	}
	enums := func(list protoreflect.EnumDescriptors) {
		for i := range list.Len() {
			values := list.Get(i).Values()
			for j := range values.Len() {
				v := values.Get(j)
				add(v, "value", fmt.Sprintf("%s.%s", list.Get(i).FullName(), v.Name()), fmt.Sprintf("= %d", v.Number()))
			}
		}
	}
	var messages func(protoreflect.MessageDescriptors)
	messages = func(list protoreflect.MessageDescriptors) {
		for i := range list.Len() {
			m := list.Get(i)
			add(m, "message", string(m.FullName()), "")
			for j := range m.Fields().Len() {
				add(m.Fields().Get(j), "field", string(m.Fields().Get(j).FullName()), fieldOf(m.Fields().Get(j)))
			}
			enums(m.Enums())
			messages(m.Messages())
		}
	}
	enums(f.Enums())
	messages(f.Messages())
	for i := range f.Services().Len() {
		calls := f.Services().Get(i).Methods()
		for j := range calls.Len() {
			c := calls.Get(j)
			add(c, "call", string(c.FullName()), fmt.Sprintf("(%s%s) returns (%s%s)",
				streams(c.IsStreamingClient()), c.Input().FullName(), streams(c.IsStreamingServer()), c.Output().FullName()))
		}
	}
	return all
}

// fieldOf is what of a field must stay: its number, how often it can come, its type, and whether it is told apart from its zero value.
func fieldOf(f protoreflect.FieldDescriptor) string {
	kind := f.Kind().String()
	switch {
	case f.IsMap():
		kind = "map"
	case f.Message() != nil:
		kind = string(f.Message().FullName())
	case f.Enum() != nil:
		kind = string(f.Enum().FullName())
	}
	of := ""
	if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
		of = " of " + string(o.Name())
	}
	return fmt.Sprintf("= %d %s %s, presence %t%s", f.Number(), f.Cardinality(), kind, f.HasPresence(), of)
}

func streams(yes bool) string {
	if yes {
		return "stream "
	}
	return ""
}
