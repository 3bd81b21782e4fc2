package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// ReadExpectations reads a JSON list of expected failures: objects with "case", "reason" and "until", a day such as "2031-12-31" on which
// the case counts again. All three are needed, no other key is taken, and the case must be one of cases, named as [Find] takes it: what is
// expected of a case that is gone expects nothing.
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
	var all []Expectation
	for i, e := range list {
		c, ok := findIn(cases, e.Case)
		until, err := time.Parse(time.DateOnly, e.Until)
		switch {
		case !ok:
			return nil, fmt.Errorf("expected failures: number %d: there is no case %q (any more): see \"slipway conformance list\"", i+1, e.Case)
		case slices.ContainsFunc(all, func(x Expectation) bool { return x.ID == c.ID }):
			return nil, fmt.Errorf("expected failures: number %d: %s stands there a second time", i+1, c.ID)
		case e.Reason == "":
			return nil, fmt.Errorf("expected failures: %s: say the reason, and where it is followed up", e.Case)
		case err != nil:
			return nil, fmt.Errorf("expected failures: %s: until is %q, want a day such as 2031-12-31", e.Case, e.Until)
		}
		all = append(all, Expectation{ID: c.ID, Reason: e.Reason, Until: until})
	}
	return all, nil
}
