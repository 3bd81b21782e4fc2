package sdk_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// wantInvalid fails unless err is what the case says: nil for an empty reason, else Invalid with that reason.
func wantInvalid(t *testing.T, err error, reason sdk.Reason) {
	t.Helper()
	if reason == "" {
		if err != nil {
			t.Errorf("got %v, want none", err)
		}
		return
	}
	if sdk.ClassOf(err) != sdk.Invalid || !errors.Is(err, reason) {
		t.Errorf("got %v, want Invalid with %q", err, reason)
	}
}

// wantNoSecret fails if an error shows a secret, however it is printed and wrapped.
func wantNoSecret(t *testing.T, err error, secrets ...string) {
	t.Helper()
	for _, e := range []error{err, fmt.Errorf("start: %w", err), errors.Join(errors.New("one"), err)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%q", "%s"} {
			for _, s := range secrets {
				if text := fmt.Sprintf(verb, e); strings.Contains(text, s) {
					t.Errorf("%s shows the secret %q: %s", verb, s, text)
				}
			}
		}
	}
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		for _, s := range secrets {
			if text := fmt.Sprintf("%#v", *e); strings.Contains(text, s) {
				t.Errorf("a field holds the secret %q: %s", s, text)
			}
		}
	}
}
