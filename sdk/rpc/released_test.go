package rpc

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

var release = flag.Bool("release", false, "make the wire of today the one that is released: testdata/released.txt")

const releasedFile = "testdata/released.txt"

// TestWireAsReleased: programs that were built with the last release read what those of today write, and the other way round. What the release has on the wire has to stay
// as it is; what was added since may still change. A break that is meant goes into CHANGELOG.md, and is made the new measure by go test ./sdk/rpc -run TestWireAsReleased -release.
func TestWireAsReleased(t *testing.T) {
	var now []string
	protoregistry.GlobalFiles.RangeFilesByPackage("slipway.runtime.v1alpha1", func(f protoreflect.FileDescriptor) bool {
		now = append(now, wireOf(f)...)
		return true
	})
	slices.Sort(now)
	if *release {
		if err := os.WriteFile(releasedFile, []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(releasedFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	released := 0
	for lines := bufio.NewScanner(f); lines.Scan(); released++ {
		if _, there := slices.BinarySearch(now, lines.Text()); !there {
			t.Errorf("released, and not so any more: %s", lines.Text())
		}
	}
	if released < 200 {
		t.Fatalf("%s has %d lines", releasedFile, released)
	}
}

// TestWireBreaksAreSeen changes a file of the contract in each way that breaks somebody.
func TestWireBreaksAreSeen(t *testing.T) {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName("slipway.runtime.v1alpha1.Exit")
	if err != nil {
		t.Fatal(err)
	}
	file := d.ParentFile()
	was := wireOf(file)
	message := func(f *descriptorpb.FileDescriptorProto, name string) *descriptorpb.DescriptorProto {
		return f.MessageType[slices.IndexFunc(f.MessageType, func(m *descriptorpb.DescriptorProto) bool { return m.GetName() == name })]
	}
	for what, change := range map[string]func(f *descriptorpb.FileDescriptorProto){
		"a field is gone":  func(f *descriptorpb.FileDescriptorProto) { m := message(f, "Exit"); m.Field = m.Field[1:] },
		"a field's name":   func(f *descriptorpb.FileDescriptorProto) { *message(f, "Exit").Field[0].Name += "s" },
		"a field's number": func(f *descriptorpb.FileDescriptorProto) { *message(f, "Exit").Field[0].Number = 77 },
		"a field's type": func(f *descriptorpb.FileDescriptorProto) {
			*message(f, "Exit").Field[0].Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES
		},
		"a field is a list": func(f *descriptorpb.FileDescriptorProto) {
			*message(f, "Exit").Field[0].Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED
		},
		"a call is gone": func(f *descriptorpb.FileDescriptorProto) { s := f.Service[0]; s.Method = s.Method[1:] },
		"a call's answer streams": func(f *descriptorpb.FileDescriptorProto) {
			s := f.Service[0].Method[0]
			v := !s.GetServerStreaming()
			s.ServerStreaming = &v
		},
		"nothing but a new field": func(f *descriptorpb.FileDescriptorProto) {
			m := message(f, "Exit")
			m.Field = append(m.Field, newField(77))
		},
		"nothing but a new answer": func(f *descriptorpb.FileDescriptorProto) { f.MessageType = append(f.MessageType, newMessage()) },
	} {
		changed := protodesc.ToFileDescriptorProto(file)
		change(changed)
		built, err := protodesc.NewFile(changed, protoregistry.GlobalFiles)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		now := wireOf(built)
		broken := slices.ContainsFunc(was, func(line string) bool { return !slices.Contains(now, line) })
		if broken == strings.HasPrefix(what, "nothing") {
			t.Errorf("%s: a break is seen: %v", what, broken)
		}
	}
}

func newField(number int32) *descriptorpb.FieldDescriptorProto {
	name, kind, label := "added", descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
	return &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind, Label: &label}
}

func newMessage() *descriptorpb.DescriptorProto {
	name := "Added"
	return &descriptorpb.DescriptorProto{Name: &name}
}

// wireOf is what a file promises to who speaks it, a line each, which says all that matters of one thing.
func wireOf(f protoreflect.FileDescriptor) (lines []string) {
	enums := func(all protoreflect.EnumDescriptors) {
		for i := range all.Len() {
			values := all.Get(i).Values()
			for j := range values.Len() {
				lines = append(lines, fmt.Sprintf("value %s %s = %d", all.Get(i).FullName(), values.Get(j).Name(), values.Get(j).Number()))
			}
		}
	}
	var messages func(protoreflect.MessageDescriptors)
	messages = func(all protoreflect.MessageDescriptors) {
		for i := range all.Len() {
			m := all.Get(i)
			lines = append(lines, fmt.Sprintf("message %s", m.FullName()))
			for j := range m.Fields().Len() {
				lines = append(lines, fieldLine(m.Fields().Get(j)))
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
			lines = append(lines, fmt.Sprintf("call %s(%s%s) %s%s", c.FullName(), streams(c.IsStreamingClient()), c.Input().FullName(), streams(c.IsStreamingServer()), c.Output().FullName()))
		}
	}
	return lines
}

func fieldLine(f protoreflect.FieldDescriptor) string {
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
	return fmt.Sprintf("field %s = %d %s %s, presence %t%s", f.FullName(), f.Number(), f.Cardinality(), kind, f.HasPresence(), of)
}

func streams(yes bool) string {
	if yes {
		return "stream "
	}
	return ""
}
