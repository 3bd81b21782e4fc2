package api

import (
	"io/fs"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/sdk"
)

// TestNamesAreBytes: a message tells of a file whatever its name is, and who asks for the list gets that name.
func TestNamesAreBytes(t *testing.T) {
	for _, name := range []string{"plain", "ü", "\xff\xfe", "a\xc3"} {
		message, err := proto.Marshal(pbFile(sdk.FileInfo{Name: name, Mode: fs.ModeSymlink | 0o777, LinkTarget: "to\xff"}))
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		var told pb.File
		if err := proto.Unmarshal(message, &told); err != nil {
			t.Fatal(err)
		}
		if got := fromFile(&told); got.Name != name || got.Mode != fs.ModeSymlink|0o777 || !utf8.ValidString(got.LinkTarget) {
			t.Errorf("%q came as %+v", name, got)
		}
		if utf8.ValidString(name) != (len(told.GetRawName()) == 0) {
			t.Errorf("%q: raw %q", name, told.GetRawName())
		}
	}
	if err := sayable("\xff"); sdk.ClassOf(err) != sdk.Invalid {
		t.Error(err)
	}
}
