package sdk_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

func TestCheckIDTakesEachByteWhereItMayStand(t *testing.T) {
	const inner, outer = "abcdefghijklmnopqrstuvwxyz0123456789-", "abcdefghijklmnopqrstuvwxyz0123456789"
	for b := range 256 {
		c := string([]byte{byte(b)})
		for id, allowed := range map[string]string{c: outer, c + "x": outer, "x" + c: outer, "x" + c + "x": inner} {
			if ok := sdk.CheckID(sdk.KindVolume, id) == nil; ok != strings.Contains(allowed, c) {
				t.Errorf("%q: taken is %v", id, ok)
			}
		}
	}
}

func TestCheckIDLengths(t *testing.T) {
	for n, reason := range map[int]sdk.Reason{0: sdk.ReasonSpec, 1: "", 2: "", 47: "", 48: "", 49: sdk.ReasonSpec, 1 << 20: sdk.ReasonSpec} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			err := sdk.CheckID(sdk.KindContainer, strings.Repeat("a", n))
			wantInvalid(t, err, reason)
			if err == nil {
				return
			}
			if e, _ := errors.AsType[*sdk.Error](err); e.Kind != sdk.KindContainer {
				t.Errorf("kind %q", e.Kind)
			}
			if len(err.Error()) > 200 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestCheckToken(t *testing.T) {
	for b := range 256 {
		tok := sdk.Token("t" + string([]byte{byte(b)}) + "t")
		if ok := sdk.CheckToken(tok) == nil; ok != (b >= 0x21 && b <= 0x7e) {
			t.Errorf("%q: taken is %v", tok, ok)
		}
	}
	for n, reason := range map[int]sdk.Reason{0: sdk.ReasonSpec, 1: "", 127: "", 128: "", 129: sdk.ReasonSpec} {
		wantInvalid(t, sdk.CheckToken(sdk.Token(strings.Repeat("t", n))), reason)
	}
	wantNoSecret(t, sdk.CheckToken("hunter2 hunter2"), "hunter2")
}

func TestNewTokenIsGoodAndNeverTheSame(t *testing.T) {
	seen := make(map[sdk.Token]bool)
	for range 1000 {
		tok := sdk.NewToken()
		if err := sdk.CheckToken(tok); err != nil || seen[tok] || len(tok) < 22 { // 22 of 64 symbols are 128 bits
			t.Fatalf("token %q, seen before is %v: %v", tok, seen[tok], err)
		}
		seen[tok] = true
	}
}

// labels makes n of them, each with a key of 4 bytes and a value of size bytes.
func labels(n, size int) map[string]string {
	m := make(map[string]string, n)
	for i := range n {
		m[fmt.Sprintf("k%03d", i)] = strings.Repeat("v", size)
	}
	return m
}

func TestCheckLabels(t *testing.T) {
	one := func(k, v string) map[string]string { return map[string]string{k: v} }
	full := labels(16, 252) // 16 times 256 bytes are 4 KiB
	over := labels(16, 252)
	over["k000"] += "v"
	for name, c := range map[string]struct {
		labels map[string]string
		reason sdk.Reason
	}{
		"nil":                     {nil, ""},
		"none":                    {map[string]string{}, ""},
		"the installation":        {one(sdk.LabelInstallation, "x"), ""},
		"32":                      {labels(32, 1), ""},
		"33":                      {labels(33, 1), sdk.ReasonSpec},
		"empty key":               {one("", "v"), sdk.ReasonSpec},
		"key of 63":               {one(strings.Repeat("k", 63), ""), ""},
		"key of 64":               {one(strings.Repeat("k", 64), ""), sdk.ReasonSpec},
		"empty value":             {one("k", ""), ""},
		"value of 256":            {one("k", strings.Repeat("v", 256)), ""},
		"value of 257":            {one("k", strings.Repeat("v", 257)), sdk.ReasonSpec},
		"256 bytes of two each":   {one("k", strings.Repeat("é", 128)), ""},
		"257 bytes of characters": {one("k", strings.Repeat("é", 128)+"e"), sdk.ReasonSpec},
		"no UTF-8":                {one("k", "\xff"), sdk.ReasonSpec},
		"4096 in all":             {full, ""},
		"4097 in all":             {over, sdk.ReasonSpec},
	} {
		t.Run(name, func(t *testing.T) { wantInvalid(t, sdk.CheckLabels(c.labels), c.reason) })
	}
	for b := range 256 {
		k := string([]byte{byte(b)})
		if ok := sdk.CheckLabels(one(k, "")) == nil; ok != strings.Contains("abcdefghijklmnopqrstuvwxyz0123456789._/-", k) {
			t.Errorf("key %q: taken is %v", k, ok)
		}
	}
}

func TestCheckLabelsTellsTheFirstMistake(t *testing.T) {
	bad := map[string]string{"A": "", "B": "", "C": "", "D": "", "E": ""}
	for range 50 {
		if err := sdk.CheckLabels(bad); !strings.Contains(err.Error(), `"A"`) {
			t.Fatalf("got %v", err)
		}
	}
}
