package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// ReadExpectations reads a JSON list of expected failures: objects with "case", "reason" and "until", a day such as "2031-12-31" on which
// the case counts again. All three are needed, no other key is taken, and the case must be one of cases: what is expected of a case that is
// gone expects nothing.
func ReadExpectations(r io.Reader, cases []Case) ([]Expectation, error) {
	var list []struct{ Case, Reason, Until string }
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("expected failures: want a JSON list of objects with case, reason and until: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("expected failures: there is something after the list")
	}
	ids := make(map[string]bool)
	for _, c := range cases {
		ids[c.ID] = true
	}
	var all []Expectation
	for i, e := range list {
		until, err := time.Parse(time.DateOnly, e.Until)
		switch {
		case !ids[e.Case]:
			return nil, fmt.Errorf("expected failures: number %d: there is no case %q (any more)", i+1, e.Case)
		case e.Reason == "":
			return nil, fmt.Errorf("expected failures: %s: say the reason, and where it is followed up", e.Case)
		case err != nil:
			return nil, fmt.Errorf("expected failures: %s: until is %q, want a day such as 2031-12-31", e.Case, e.Until)
		}
		ids[e.Case] = false // once is enough
		all = append(all, Expectation{ID: e.Case, Reason: e.Reason, Until: until})
	}
	return all, nil
}
