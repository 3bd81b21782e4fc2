package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-run/slipway/conformance"
)

// suiteProgress tells how a run of the suite goes on. On a terminal a last line says what is being run, and what passes is not written;
// elsewhere there is a line for each case.
type suiteProgress struct {
	a             *app
	screen        *screen
	total         int // cases that are to be run
	ended, failed int
	running       []string // the one that began first, first
}

func newSuiteProgress(a *app, opts conformance.Options) *suiteProgress {
	p := &suiteProgress{a: a, screen: &screen{out: a.out, err: a.err}}
	for _, c := range conformance.Cases() {
		if opts.Chosen(c) || c.ID == conformance.NothingLeft().ID { // which is always run
			p.total++
		}
	}
	return p
}

func (p *suiteProgress) begun(c conformance.Case) {
	p.running = append(p.running, c.ID)
	p.show()
}

func (p *suiteProgress) report(r conformance.Result) {
	if i := slices.Index(p.running, r.ID); i >= 0 {
		p.running = slices.Delete(p.running, i, i+1)
	}
	if r.Status == conformance.Skipped {
		return
	}
	p.ended++
	if r.Status == conformance.Fail || r.Status == conformance.Error {
		p.failed++
	}
	if r.Status != conformance.Pass || !p.a.out.term {
		p.screen.write(p.a.out, fmt.Appendf(nil, "%-18s %s\n", r.Status, r.Name()))
	}
	p.show()
}

func (p *suiteProgress) show() {
	text := fmt.Sprintf("%d of %d", p.ended, p.total)
	if p.failed > 0 {
		text += fmt.Sprintf(", %d failed", p.failed)
	}
	p.screen.setStatus(text + ": " + strings.Join(p.running, " "))
}

// end takes the last line away.
func (p *suiteProgress) end() { p.screen.setStatus("") }
