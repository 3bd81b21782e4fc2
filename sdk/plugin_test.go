package sdk_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

func TestParseBytes(t *testing.T) {
	for s, want := range map[string]sdk.Bytes{
		"0": 0, "1": 1, "007": 7, "0B": 0, "12B": 12, "1KiB": 1 << 10, "64MiB": 64 << 20, "3GiB": 3 << 30, "2TiB": 2 << 40,
		"64 MiB": 64 << 20, " 64MiB ": 64 << 20, "64 ": 64, "\t1 B\n": 1,
		"9223372036854775807":  math.MaxInt64,
		"9007199254740991KiB":  math.MaxInt64 - 1023,
		"8388607TiB":           8388607 << 40,
		"9223372036854775807B": math.MaxInt64,
	} {
		if got, err := sdk.ParseBytes(s); err != nil || got != want {
			t.Errorf("%q: %d and %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", " ", "B", "KiB", "-1", "-0", "+1", "-1MiB", "1.5GiB", "1e3", "0x10", "1_000", "1,000",
		"1K", "1KB", "1kib", "1MIB", "1mib", "1PiB", "1Ki", "1iB", "1BB", "1KiBB", "1 K iB", "1 2", "Infinity", "NaN", "\x001", "１",
		"9223372036854775808", "9007199254740992KiB", "8388608TiB", "18446744073709551616", "99999999999999999999TiB",
	} {
		if got, err := sdk.ParseBytes(s); err == nil || got != 0 {
			t.Errorf("%q is %d", s, got)
		}
	}
}

func TestSettingsAsJSON(t *testing.T) {
	type settings struct {
		Every sdk.Duration
		Size  sdk.Bytes
	}
	before := settings{Every: 7, Size: 9}
	for text, want := range map[string]settings{
		`{}`:                                   before,
		`{"Every":null,"Size":null}`:           before,
		`{"Every":"1m30s"}`:                    {sdk.Duration(90 * time.Second), 9},
		`{"Every":"-1ns"}`:                     {-1, 9},
		`{"Every":"0"}`:                        {0, 9},
		`{"Size":"64MiB"}`:                     {7, 64 << 20},
		`{"Size":" 64 MiB "}`:                  {7, 64 << 20},
		`{"Size":"\u0036\u0034"}`:              {7, 64},
		`{"Size":64}`:                          {7, 64},
		`{"Size":9223372036854775807}`:         {7, math.MaxInt64},
		`{"Size": 5 , "Every": "2h" }`:         {sdk.Duration(2 * time.Hour), 5},
		`{"Every":"2562047h47m16.854775807s"}`: {math.MaxInt64, 9},
	} {
		got := before
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %+v and %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		`{"Every":""}`, `{"Every":"1"}`, `{"Every":1}`, `{"Every":"1 m"}`, `{"Every":"1d"}`, `{"Every":"2562048h"}`, `{"Every":true}`, `{"Every":{}}`,
		`{"Size":""}`, `{"Size":-1}`, `{"Size":"-1"}`, `{"Size":1.5}`, `{"Size":1e3}`, `{"Size":9223372036854775808}`, `{"Size":"8388608TiB"}`,
		`{"Size":true}`, `{"Size":[1]}`, `{"Size":{}}`, `{"Size":"64MB"}`,
	} {
		got := before
		if err := json.Unmarshal([]byte(text), &got); err == nil || got != before {
			t.Errorf("%s: %+v and %v, want it refused and nothing changed", text, got, err)
		}
	}
	for _, s := range []settings{{}, before, {math.MaxInt64, math.MaxInt64}, {math.MinInt64, 0}} {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back settings
		if err := json.Unmarshal(text, &back); err != nil || back != s {
			t.Errorf("%+v went as %s and came back as %+v, %v", s, text, back, err)
		}
	}
}

// shout takes what is in capitals, and tells all when it does not like it.
type shout string

func (s *shout) UnmarshalText(b []byte) error {
	if text := string(b); text != strings.ToUpper(text) {
		return &json.SyntaxError{Offset: int64(len(text))}
	}
	*s = shout(b)
	return nil
}

type gossip string

func (g *gossip) UnmarshalJSON(b []byte) error { return gossipError(b) }

type gossipError string

func (e gossipError) Error() string { return "I was told " + string(e) }

type blockSettings struct {
	Address string            `json:"address"`
	Token   string            `json:"token" sensitive:"true"`
	Pin     int               `json:"pin" sensitive:"true"`
	Every   sdk.Duration      `json:"every"`
	Size    sdk.Bytes         `json:"size"`
	On      bool              `json:"on"`
	Factor  float64           `json:"factor"`
	List    []string          `json:"list"`
	Map     map[string]string `json:"map" sensitive:"true"`
	Nested  *struct {
		Key  string       `json:"key" sensitive:"true"`
		Wait sdk.Duration `json:"wait"`
	} `json:"nested"`
	Nodes []struct {
		Size sdk.Bytes `json:"size"`
	} `json:"node"`
	Shout  shout  `json:"shout" sensitive:"true"`
	Gossip gossip `json:"gossip" sensitive:"true"`
}

func TestBlockDecode(t *testing.T) {
	for _, values := range []string{"", "{}", " {} \n", `{"address":"a"}`, `null`} {
		got := blockSettings{Address: "a", Pin: 5}
		if err := (sdk.Block{Name: "b", Values: json.RawMessage(values)}).Decode(&got); err != nil || got.Address != "a" || got.Pin != 5 {
			t.Errorf("%q: %+v and %v", values, got, err)
		}
	}
	var got blockSettings
	values := `{"address":"x","token":"s","pin":1,"every":"1s","size":"1KiB","on":true,"factor":1.5,"list":["a"],"map":{"k":"v"},"nested":{"key":"k","wait":"2s"},"node":[{"size":"1"},{"size":"2"}],"shout":"A"}`
	if err := (sdk.Block{Name: "b", Values: json.RawMessage(values)}).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if back, _ := json.Marshal(got); !strings.Contains(string(back), `"nested":{"key":"k","wait":"2s"},"node":[{"size":1},{"size":2}]`) || got.Size != 1024 {
		t.Errorf("it is %s", back)
	}
}

func TestBlockDecodeNamesSettingsAndQuotesNoValues(t *testing.T) {
	for values, want := range map[string]string{
		`{"adress":"hunter2"}`:                       `unknown field "adress"`,
		`{"nested":{"kee":"hunter2"}}`:               `unknown field "kee"`,
		`{"token":77123}`:                            `"token" must be a string, not this number`,
		`{"pin":"hunter2"}`:                          `"pin" must be a whole number of 64 bits, not this string`,
		`{"pin":77123.5}`:                            `"pin" must be a whole number of 64 bits, not this number`,
		`{"pin":7712399999999999999999}`:             `"pin" must be a whole number of 64 bits, not this number`,
		`{"factor":77123e999}`:                       `"factor" must be a number of 64 bits, not this number`,
		`{"every":"hunter2"}`:                        `"every" must be a duration such as "1m30s", not this string`,
		`{"every":77123}`:                            `"every" must be a duration such as "1m30s", not this number`,
		`{"size":"hunter2"}`:                         `"size" must be a size such as "64MiB", not this string`,
		`{"size":-77123}`:                            `"size" must be a size such as "64MiB", not this number`,
		`{"size":["hunter2"]}`:                       `"size" must be a size such as "64MiB", not this array`,
		`{"on":"hunter2"}`:                           `"on" must be true or false, not this string`,
		`{"list":"hunter2"}`:                         `"list" must be a list, not this string`,
		`{"map":["hunter2"]}`:                        `"map" must be an object, not this array`,
		`{"map":{"k":77123}}`:                        `"map" must be a string, not this number`,
		`{"nested":{"wait":"hunter2"}}`:              `"nested.wait" must be a duration such as "1m30s", not this string`,
		`{"nested":"hunter2"}`:                       `"nested" must be an object, not this string`,
		`{"node":[{"size":"1"},{"size":"hunter2"}]}`: `"node.size" must be a size such as "64MiB", not this string`,
		`["hunter2"]`:                                `want an object, not this array`,
		`"hunter2"`:                                  `want an object, not this string`,
		`{"token":"hunter2"`:                         `not one whole JSON value`,
		`{"token":"hunter2"} {}`:                     `not one whole JSON value`,
		`{"token":"hunter2"}}`:                       `not one whole JSON value`,
		`hunter2`:                                    `not one whole JSON value`,
		` `:                                          `not one whole JSON value`,
		`{"shout":"hunter2"}`:                        `a value does not fit its setting in *sdk_test.blockSettings`,
		`{"gossip":"hunter2"}`:                       `a value does not fit its setting in *sdk_test.blockSettings`,
		`{"adress":"hunter2","gossip":"hunter2"}`:    `a value does not fit its setting in *sdk_test.blockSettings`,
	} {
		t.Run(values, func(t *testing.T) {
			err := sdk.Block{Name: "b", Values: json.RawMessage(values)}.Decode(&blockSettings{})
			wantInvalid(t, err, sdk.ReasonConfig)
			if err == nil {
				return
			}
			if text := err.Error(); text != `settings of "b": `+want {
				t.Errorf("got  %s\nwant settings of \"b\": %s", text, want)
			}
			wantNoSecret(t, err, "hunter2", "77123")
		})
	}
}

func TestBlockDecodeIntoWhatIsNoPointerIsTheAuthorsMistake(t *testing.T) {
	for _, v := range []any{nil, blockSettings{}, (*blockSettings)(nil)} {
		err := sdk.Block{Name: "b", Values: json.RawMessage(`{"token":"hunter2"}`)}.Decode(v)
		if sdk.ClassOf(err) != sdk.Internal {
			t.Errorf("%T: %v", v, err)
		}
		wantNoSecret(t, err, "hunter2")
	}
}
