package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// exit is the file with the message Exit, of the contract as it is.
func exit(t *testing.T) protoreflect.FileDescriptor {
	t.Helper()
	files, err := targets()[0].compile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Messages().ByName("Exit") != nil {
			return f
		}
	}
	t.Fatal("no file has a message Exit")
	return nil
}

// TestBreaksAreTold changes a file of the contract in each way that breaks somebody, and wants to be told what is wrong and what to do.
func TestBreaksAreTold(t *testing.T) {
	file := exit(t)
	message := func(f *descriptorpb.FileDescriptorProto, name string) *descriptorpb.DescriptorProto {
		return f.MessageType[slices.IndexFunc(f.MessageType, func(m *descriptorpb.DescriptorProto) bool { return m.GetName() == name })]
	}
	field := string(file.Messages().ByName("Exit").Fields().Get(0).FullName())
	call := func(f *descriptorpb.FileDescriptorProto) *descriptorpb.MethodDescriptorProto {
		return f.Service[0].Method[0]
	}
	callName := string(file.Services().Get(0).Methods().Get(0).FullName())
	value := fmt.Sprintf("%s.%s", file.Enums().Get(0).FullName(), file.Enums().Get(0).Values().Get(1).Name())
	for what, c := range map[string]struct {
		change func(f *descriptorpb.FileDescriptorProto)
		says   []string // of the one line; nil: there is none
	}{
		"a field is gone": {func(f *descriptorpb.FileDescriptorProto) { m := message(f, "Exit"); m.Field = m.Field[1:] },
			[]string{"field " + field + " was released (= 1 ", "is gone", "deprecated = true"}},
		"a field's name": {func(f *descriptorpb.FileDescriptorProto) { *message(f, "Exit").Field[0].Name += "s" },
			[]string{"field " + field + " was released", "is gone"}},
		"a field's number": {func(f *descriptorpb.FileDescriptorProto) { *message(f, "Exit").Field[0].Number = 77 },
			[]string{"field " + field + ` was released as "= 1 `, `and is now "= 77 `, "under a name and number of its own"}},
		"a field's type": {func(f *descriptorpb.FileDescriptorProto) {
			*message(f, "Exit").Field[0].Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES
		}, []string{field, "is now", "bytes"}},
		"a field is a list": {func(f *descriptorpb.FileDescriptorProto) {
			*message(f, "Exit").Field[0].Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED
		}, []string{field, "is now", "repeated"}},
		"a value's number": {func(f *descriptorpb.FileDescriptorProto) { *f.EnumType[0].Value[1].Number = 77 },
			[]string{"value " + value + " was released as", `and is now "= 77"`}},
		"a call is gone": {func(f *descriptorpb.FileDescriptorProto) { s := f.Service[0]; s.Method = s.Method[1:] },
			[]string{"call " + callName, "is gone", "a call of its own"}},
		"a call's answer streams": {func(f *descriptorpb.FileDescriptorProto) {
			v := !call(f).GetServerStreaming()
			call(f).ServerStreaming = &v
		}, []string{"call " + callName + " was released as", "a call of its own"}},
		"a new field": {change: func(f *descriptorpb.FileDescriptorProto) {
			name, number := "added", int32(77)
			kind, label := descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
			m := message(f, "Exit")
			m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind, Label: &label})
		}},
		"a new message": {change: func(f *descriptorpb.FileDescriptorProto) {
			name := "Added"
			f.MessageType = append(f.MessageType, &descriptorpb.DescriptorProto{Name: &name})
		}},
	} {
		t.Run(what, func(t *testing.T) {
			changed := protodesc.ToFileDescriptorProto(file)
			c.change(changed)
			now, err := protodesc.NewFile(changed, protoregistry.GlobalFiles)
			if err != nil {
				t.Fatal(err)
			}
			told := breaks(wireOf(file), wireOf(now))
			if want := min(1, len(c.says)); len(told) != want {
				t.Fatalf("told are %d breaks, want %d:\n%s", len(told), want, strings.Join(told, "\n"))
			}
			for _, text := range c.says {
				if !strings.Contains(told[0], text) {
					t.Errorf("it does not say %q:\n%s", text, told[0])
				}
			}
		})
	}
}

// TestAMessageThatIsGoneIsToldOnce, and none of its fields.
func TestAMessageThatIsGoneIsToldOnce(t *testing.T) {
	was := wireOf(exit(t))
	now := slices.DeleteFunc(slices.Clone(was), func(p promise) bool { return strings.HasPrefix(p.name+".", "slipway.runtime.v1alpha1.Exit.") })
	if told := breaks(was, now); len(told) != 1 || !strings.Contains(told[0], "message slipway.runtime.v1alpha1.Exit was released") {
		t.Errorf("told are %q", told)
	}
}

// TestReleasedIsReadBack: what is written is what is compared, whole.
func TestReleasedIsReadBack(t *testing.T) {
	file, path := exit(t), filepath.Join(t.TempDir(), "released.txt")
	if err := writeReleased(path, wireOf(file)); err != nil {
		t.Fatal(err)
	}
	if err := checkReleased(path, wireOf(file)); err != nil {
		t.Error(err)
	}
	err := checkReleased(path, wireOf(file)[1:])
	if err == nil || !strings.Contains(err.Error(), "make released") {
		t.Errorf("with a promise less: %v", err)
	}
}
