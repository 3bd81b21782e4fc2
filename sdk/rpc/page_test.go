package rpc

import (
	"encoding/hex"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/slipway-run/slipway/sdk"
)

// TestErrorOnThePage holds the bytes that error.proto shows to authors in other languages against those that are sent.
func TestErrorOnThePage(t *testing.T) {
	page, err := os.ReadFile("../proto/slipway/runtime/v1alpha1/error.proto")
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	for _, line := range regexp.MustCompile(`(?m)^//   ([0-9a-f]+)$`).FindAllStringSubmatch(string(page), -1) {
		shown.WriteString(line[1])
	}
	sent, err := proto.MarshalOptions{Deterministic: true}.Marshal(status.Convert(toStatus(t.Context(), sdk.NewNotFound(sdk.KindVolume, "v"))).Proto())
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(sent); got != shown.String() {
		t.Errorf("sent is\n%s", regexp.MustCompile(`.{1,60}`).ReplaceAllString(got, "//   $0\n"))
	}
}

// TestNamesOnThePage: every feature and every reason of package sdk stands in the published files, where authors in other languages look for it.
func TestNamesOnThePage(t *testing.T) {
	for source, page := range map[string]string{"../feature.go": "worker.proto", "../errors.go": "error.proto"} {
		code, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("../proto/slipway/runtime/v1alpha1/" + page)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`(?m)^\s(?:Feature|Reason)\w+ +(?:Feature|Reason) += "([^"]+)"`).FindAllStringSubmatch(string(code), -1)
		if len(names) < 20 {
			t.Fatalf("%s has %d names", source, len(names))
		}
		for _, name := range names {
			if !regexp.MustCompile(`(?m)^ *//.*(^|[ :])` + regexp.QuoteMeta(name[1]) + `([ ,;]|$)`).Match(text) {
				t.Errorf("%s does not tell of %s", page, name[1])
			}
		}
	}
}

// TestNamesAreNoKeywords: what is a keyword of Python cannot be written there as a field's name, what each object of Ruby has as a method hides the field there (for C#, where
// each message has a method Clone, no code with such a field compiles), and generated code of other languages calls it something else.
func TestNamesAreNoKeywords(t *testing.T) {
	methods := strings.Fields("class clone define_singleton_method display dup enum_for extend freeze hash inspect itself method methods object_id send tap then to_enum to_h to_s")
	keywords := append(methods, strings.Fields("and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield")...)
	protoregistry.GlobalFiles.RangeFilesByPackage("slipway.runtime.v1alpha1", func(f protoreflect.FileDescriptor) bool {
		var look func(protoreflect.MessageDescriptors)
		look = func(messages protoreflect.MessageDescriptors) {
			for i := range messages.Len() {
				fields := messages.Get(i).Fields()
				for j := range fields.Len() {
					if name := fields.Get(j); slices.Contains(keywords, string(name.Name())) {
						t.Errorf("%s is a keyword, or a method of all objects", name.FullName())
					}
				}
				look(messages.Get(i).Messages())
			}
		}
		look(f.Messages())
		return true
	})
}
