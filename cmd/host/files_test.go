//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestFewFiles: where slipway may open few files, a job of many steps takes longer, and none of them fails for that.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	var j strings.Builder
	j.WriteString("job \"many\" {\n")
	for i := range 60 {
		fmt.Fprintf(&j, "step \"s%d\" {\nrun {\npath = \"echo\"\nargs = [\"%d\"]\n}\n}\n", i, i)
	}
	j.WriteString("}\n")
	p := newPlace(t).write(map[string]string{"j.hcl": j.String()})
	for files, says := range map[int]string{64: "waits: for its turn, as others do: 1 may go at a time", 140: "waits: for its turn, as others do: 6 may go at a time"} {
		r := p.runWith(p.program("sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" run j.hcl`, files), p.bin+"/slipway")).wants(0).says(says, "60 steps succeeded")
		if n := strings.Count(r.out, "\n"); n != 60 {
			t.Errorf("with %d files: %d lines of output", files, n)
		}
	}
	p.run("run", "j.hcl", "--parallel", "2").wants(0).says("2 may go at a time", "60 steps succeeded")
	p.run("run", "j.hcl", "--parallel", "-1").wants(codeUsage).says("--parallel -1")
}
