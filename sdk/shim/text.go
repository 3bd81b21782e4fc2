package shim

import (
	"io"

	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// verbText stands before a verb whose stdin is text.
const verbText = "text"

// TextCommand makes of a command that [Exec] was asked to run one whose stdin is what [TextStdin] gives, for runtimes that garble stdin
// which is not UTF-8: Garden puts it into JSON. Its stdout is bytes, as ever.
func TextCommand(argv []string) []string {
	return append([]string{argv[0], verbText}, argv[1:]...)
}

// TextStdin makes the stdin of a [TextCommand] of what Exec was given: the same in printable ASCII, as it comes. An error of r comes back
// unchanged.
func TextStdin(r io.Reader) io.Reader { return &wire.TextEncoder{R: r} }
