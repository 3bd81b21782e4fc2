package conformance

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/slipway-run/slipway/internal/printable"
)

// TextOptions are the optional settings of [WriteText].
type TextOptions struct {
	Brief bool // only the table of profiles
	// Again gives the command that runs a case again, for those that failed. Nil: none is told.
	Again func(id string) string
}

// WriteText writes a report for people: what did not pass and why, then a table of profiles. Cases that failed alike are told once.
func WriteText(w io.Writer, s Summary, opts TextOptions) error {
	var b strings.Builder
	if !opts.Brief {
		alike := make(map[string][]string)
		for _, r := range s.Results {
			if r.Status == Fail {
				alike[likeness(r)] = append(alike[likeness(r)], r.Name())
			}
		}
		for _, r := range inOrder(s.Results, alike) {
			if r.Status != Fail {
				writeResult(&b, r, nil, opts.Again)
			} else if names := alike[likeness(r)]; names[0] == r.Name() {
				writeResult(&b, r, names[1:], opts.Again)
			}
		}
	}
	if !opts.Brief {
		if len(s.Said) > 0 {
			b.WriteString("the plugin's last words on stderr, which may be of any case:\n")
		}
		for _, line := range s.Said {
			fmt.Fprintf(&b, "    %s\n", printable.Message(line))
		}
		writeSlowest(&b, s)
	}
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "profile\tverdict")
	for _, st := range Statuses() {
		fmt.Fprintf(tw, "\t%s", st)
	}
	fmt.Fprint(tw, "\twarnings\n")
	for _, p := range s.Profiles {
		if (!slices.Contains(s.Asked, p.Profile) || s.leftOut(p.Profile)) && p.Counts[Fail]+p.Counts[Error] == 0 {
			continue
		}
		fmt.Fprintf(tw, "%s\t%s", p.Profile, p.Verdict)
		for _, st := range Statuses() {
			fmt.Fprintf(tw, "\t%d", p.Counts[st])
		}
		fmt.Fprintf(tw, "\t%d\n", p.Warnings)
	}
	tw.Flush() // into memory
	if len(s.Untested) > 0 {
		var names []string
		for _, f := range s.Untested {
			names = append(names, printable.Message(string(f)))
		}
		fmt.Fprintf(&b, "\nnamed by the worker, and not tested: %s\n", strings.Join(names, ", "))
	}
	fmt.Fprintf(&b, "\n%s, worker %q, contract %s, %.1f s, seed %d\n", s.Target, s.Worker, s.SDK, s.Seconds, s.Seed)
	_, err := io.WriteString(w, b.String())
	return err
}

// likeness is equal for cases that have seen the same, but for the ids that each has for itself. Of a call that was refused though nothing spoke against it, also what
// it was about does not matter: what a plugin cannot do, it refuses to many cases in many places.
func likeness(r Result) string {
	text := ownIDs.ReplaceAllString(failureText(r), "")
	if slices.ContainsFunc(r.Failures, func(f Failure) bool { return f.Why != whyRefused }) {
		return text
	}
	return particulars.ReplaceAllString(text, "")
}

var (
	ownIDs = regexp.MustCompile(`\b` + idPrefix + `[a-z0-9-]+`)
	// particulars are what is quoted, paths, and numbers.
	particulars = regexp.MustCompile(`"[^"]*"|'[^']*'|/[^\s:;,")]*|[0-9]+`)
)

// many is from how many cases on that have failed alike a report tells of them before all others: whoever mends that sees what is left.
const many = 5

// inOrder has results as they are told: how the plugin has ended, where it has, what others follow from, what many cases have seen, and then the rest as it stands.
func inOrder(all []Result, alike map[string][]string) []Result {
	weight := func(r Result) int {
		n := len(alike[likeness(r)])
		switch {
		case r.ID == nothingLeftID && r.Status == Fail:
			return len(all) + 1
		case r.ID == errorDetailID && r.Status == Fail: // without details whatever a plugin refuses is refused in a wrong way
			return len(all)
		case r.Status != Fail || n < many:
			return 0
		}
		return n
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Result) int { return cmp.Compare(weight(b), weight(a)) })
	return all
}

func writeResult(b *strings.Builder, r Result, alike []string, again func(string) string) {
	switch r.Status {
	case Pass, Skipped:
		return
	case Fail, Error:
		fmt.Fprintf(b, "%s %s: %s\n", strings.ToUpper(string(r.Status)), r.Name(), r.Title)
	default:
		fmt.Fprintf(b, "%s %s\n", r.Status, r.Name())
	}
	if r.Note != "" {
		fmt.Fprintf(b, "    %s\n", indent(r.Note))
	}
	for i, f := range r.Failures {
		fmt.Fprintf(b, "    %s\n", indent(f.What))
		if i+1 == len(r.Failures) || r.Failures[i+1].Why != f.Why || r.Failures[i+1].Promise != f.Promise {
			fmt.Fprintf(b, "      %s%s\n", f.promise(), indent(f.Why))
		}
	}
	if len(alike) > 0 {
		fmt.Fprintf(b, "    %d more cases have failed alike: %s\n", len(alike), strings.Join(alike, ", "))
	}
	if again != nil && (r.Status == Fail || r.Status == Error) {
		fmt.Fprintf(b, "    again: %s\n", again(r.ID))
	}
}

// slowest is how many cases a report names for the time they took, where that is a choice among more.
const slowest = 10

func writeSlowest(b *strings.Builder, s Summary) {
	all := s.Slowest(len(s.Results))
	if len(all) <= slowest {
		return
	}
	results := all[:slowest]
	fmt.Fprintf(b, "slowest of %d:\n", len(all))
	for _, r := range results {
		fmt.Fprintf(b, "%8.2f s  %s\n", r.Seconds, r.Name())
	}
	b.WriteByte('\n')
}

// indent is what is shown of a text that may come from a plugin.
func indent(s string) string { return strings.ReplaceAll(printable.Message(s), "\n", "\n  ") }

// WriteJSON writes the summary as one object.
func WriteJSON(w io.Writer, s Summary) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(printable.JSON(text), '\n'))
	return err
}

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure"`
	Error   *junitMessage `xml:"error"`
	Skipped *junitMessage `xml:"skipped"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the summary for CI systems, a test suite for each profile. Failures of SHOULD cases are no failures
// there; they stand in the case's output.
func WriteJUnit(w io.Writer, s Summary) error {
	all := junitSuites{Name: "slipway conformance: " + s.Target, Time: seconds(s.Seconds)}
	for _, p := range s.Profiles {
		js := junitSuite{Name: string(p.Profile), Properties: []junitProperty{
			{"target", s.Target}, {"worker", s.Worker}, {"sdk", s.SDK}, {"seed", fmt.Sprint(s.Seed)}, {"verdict", string(p.Verdict)}}}
		for _, r := range s.Results {
			if r.Profile == p.Profile {
				js.add(r)
			}
		}
		all.Tests += js.Tests
		all.Failures += js.Failures
		all.Errors += js.Errors
		all.Skipped += js.Skipped
		all.Suites = append(all.Suites, js)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (s *junitSuite) add(r Result) {
	c := junitCase{Class: "conformance." + string(r.Profile), Name: r.ID, Time: seconds(r.Seconds), Out: strings.Join(r.Log, "\n")}
	switch {
	case r.Status == Pass:
	case r.Warning():
		c.Out = strings.TrimSpace("warning: " + failureText(r) + "\n" + c.Out)
	case r.Status == Fail:
		s.Failures++
		c.Failure = &junitMessage{Message: r.Title, Type: string(r.Level), Text: failureText(r)}
	case r.Status == Error:
		s.Errors++
		c.Error = &junitMessage{Message: "the suite itself", Text: r.Note}
	default:
		s.Skipped++
		c.Skipped = &junitMessage{Message: string(r.Status) + ": " + r.Note}
	}
	s.Tests++
	s.Cases = append(s.Cases, c)
}

// promise is the beginning of the line that says why.
func (f Failure) promise() string {
	if f.Promise == "" {
		return ""
	}
	return fmt.Sprintf("promise %s: ", f.Promise)
}

func failureText(r Result) string {
	var b strings.Builder
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "%s\n%s%s\n", f.What, f.promise(), f.Why)
	}
	return b.String()
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }
