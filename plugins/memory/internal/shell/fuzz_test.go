package shell

import (
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// FuzzVet: whatever a script says, vetting it neither panics nor makes it one
// that cannot be parsed, and what vetting makes is vetted.
func FuzzVet(f *testing.F) {
	for _, s := range []string{
		"echo $$ ~root ~x/y >| f", "printf() { :; }; function kill { :; }", "declare -n x=$y", "export \"$a=$b\" c=$d", "cat <<EOF\n$$ ~root\nEOF",
		"a=~x:~y; ${$} ${#$} ${$:-x}", "(((", "$($($(", "case x in (a) ;; esac", "trap 'x' 0 & y |& z", "local -n r=$1; nameref q=\"$2\"",
	} {
		f.Add(s)
	}
	e := New(Options{MaxScriptBytes: 10_000, MaxNesting: 50})
	f.Fuzz(func(t *testing.T, s string) {
		text, file, err := e.vet("fuzz", s, 7)
		if err != nil {
			return
		}
		syntax.Walk(file, func(n syntax.Node) bool {
			if pe, ok := n.(*syntax.ParamExp); ok && pe.Param != nil && pe.Param.Value == "$" {
				t.Errorf("%q still asks for the process id: %q", s, text)
			}
			return true
		})
	})
}
