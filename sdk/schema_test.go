package sdk_test

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-run/slipway/sdk"
)

type tlsSettings struct {
	Cert string `json:"cert" required:"true"`
	Key  string `json:"key" sensitive:"true"`
}

type nodeSettings struct {
	Name string       `json:"name" required:"true"`
	TLS  *tlsSettings `json:"tls"`
}

type shared struct {
	Zone string `json:"zone" doc:"Where it is."`
}

type Limits struct {
	Memory sdk.Bytes `json:"memory"`
}

type level string

type allSettings struct {
	shared
	Limits
	Address string            `json:"address" required:"true" doc:"Where the server is."`
	Mode    level             `json:"mode,omitempty" default:"slow" oneof:"fast,slow"`
	Secret  string            `json:"secret" sensitive:"true"`
	On      bool              `json:"on" default:"true" required:"false" sensitive:"false"`
	Slots   int               `json:"slots" default:"8" oneof:"8,16"`
	Big     int64             `json:"big" default:"-9223372036854775808"`
	Factor  float64           `json:"factor" default:"1.5"`
	Every   sdk.Duration      `json:"every" default:"1m30s"`
	Size    sdk.Bytes         `json:"size" default:"64MiB"`
	Zones   []string          `json:"zones" default:"[\"a\"]" oneof:"a,b"`
	Labels  map[string]string `json:"labels"`
	One     tlsSettings       `json:"one" required:"true"`
	Maybe   *tlsSettings      `json:"maybe" sensitive:"true"`
	Nodes   []nodeSettings    `json:"node" doc:"Each of them."`
	_       func()            // what a host cannot set has no schema
}

func TestSchemaOf(t *testing.T) {
	tls := []sdk.Field{{Name: "cert", Type: sdk.TypeString, Required: true}, {Name: "key", Type: sdk.TypeString, Sensitive: true}}
	want := sdk.Schema{Fields: []sdk.Field{
		{Name: "zone", Type: sdk.TypeString, Doc: "Where it is."},
		{Name: "memory", Type: sdk.TypeBytes},
		{Name: "address", Type: sdk.TypeString, Required: true, Doc: "Where the server is."},
		{Name: "mode", Type: sdk.TypeString, Default: "slow", OneOf: []string{"fast", "slow"}},
		{Name: "secret", Type: sdk.TypeString, Sensitive: true},
		{Name: "on", Type: sdk.TypeBool, Default: "true"},
		{Name: "slots", Type: sdk.TypeInt, Default: "8", OneOf: []string{"8", "16"}},
		{Name: "big", Type: sdk.TypeInt, Default: "-9223372036854775808"},
		{Name: "factor", Type: sdk.TypeFloat, Default: "1.5"},
		{Name: "every", Type: sdk.TypeDuration, Default: "1m30s"},
		{Name: "size", Type: sdk.TypeBytes, Default: "64MiB"},
		{Name: "zones", Type: sdk.TypeStrings, Default: `["a"]`, OneOf: []string{"a", "b"}},
		{Name: "labels", Type: sdk.TypeMap},
		{Name: "one", Type: sdk.TypeBlock, Required: true, Block: tls},
		{Name: "maybe", Type: sdk.TypeBlock, Sensitive: true, Block: tls},
		{Name: "node", Type: sdk.TypeBlocks, Doc: "Each of them.", Block: []sdk.Field{
			{Name: "name", Type: sdk.TypeString, Required: true}, {Name: "tls", Type: sdk.TypeBlock, Block: tls},
		}},
	}}
	for _, v := range []any{allSettings{}, &allSettings{}, (*allSettings)(nil)} {
		got, err := sdk.SchemaOf(v)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%T: %v; -want +got:\n%s", v, err, diff)
		}
	}
	for _, v := range []any{nil, struct{}{}, &struct{}{}} {
		got, err := sdk.SchemaOf(v)
		if err != nil || len(got.Fields) != 0 {
			t.Errorf("%T: %+v and %v, want the empty schema", v, got, err)
		}
	}
}

// What the schema tells a host must be what the struct takes.
func TestEveryFieldOfASchemaCanBeDecoded(t *testing.T) {
	schema, err := sdk.SchemaOf(allSettings{})
	if err != nil {
		t.Fatal(err)
	}
	values, err := json.Marshal(sample(schema.Fields))
	if err != nil {
		t.Fatal(err)
	}
	var got allSettings
	if err := (sdk.Block{Name: "b", Values: values}).Decode(&got); err != nil {
		t.Fatal(err)
	}
	tls := tlsSettings{Cert: "text", Key: "text"}
	want := allSettings{
		shared: shared{"text"}, Limits: Limits{1 << 10}, Address: "text", Mode: "text", Secret: "text", On: true, Slots: 3, Big: 3, Factor: 0.5,
		Every: sdk.Duration(time.Second), Size: 1 << 10, Zones: []string{"text"}, Labels: map[string]string{"k": "text"},
		One: tls, Maybe: &tls, Nodes: []nodeSettings{{Name: "text", TLS: &tls}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(allSettings{}), cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".hidden" }, cmp.Ignore())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// sample has a value for every setting, written as a host writes it.
func sample(fields []sdk.Field) map[string]any {
	m := make(map[string]any)
	for _, f := range fields {
		m[f.Name] = map[sdk.FieldType]any{
			sdk.TypeString: "text", sdk.TypeBool: true, sdk.TypeInt: 3, sdk.TypeFloat: 0.5, sdk.TypeDuration: "1s", sdk.TypeBytes: "1KiB",
			sdk.TypeStrings: []string{"text"}, sdk.TypeMap: map[string]string{"k": "text"},
		}[f.Type]
		switch f.Type {
		case sdk.TypeBlock:
			m[f.Name] = sample(f.Block)
		case sdk.TypeBlocks:
			m[f.Name] = []any{sample(f.Block)}
		}
	}
	return m
}

// Structs that hold themselves.
type (
	tree struct {
		Name     string `json:"name"`
		Children []tree `json:"child"`
	}
	chain struct {
		Next *chain `json:"next"`
	}
	ping struct {
		Pong *pong `json:"pong"`
	}
	pong struct {
		Pings []ping `json:"ping"`
	}
	inside struct {
		Outside []outside `json:"outside"`
	}
	outside struct{ inside }
	list    []list
)

func TestSchemaOfMistakes(t *testing.T) {
	field := func(name string) reflect.StructField {
		return reflect.StructField{Name: name, Type: reflect.TypeFor[string](), Tag: `json:"a"`}
	}
	twice := reflect.Zero(reflect.StructOf([]reflect.StructField{field("A"), field("B")})).Interface() // written out, vet would complain
	for name, c := range map[string]struct {
		v    any
		want string // is in the error
	}{
		"no struct":   {"text", "schema of string"},
		"a pointer's": {new(*tlsSettings), "want a struct"},
		"a map":       {map[string]string{}, "want a struct"},
		"a time":      {time.Time{}, "schema of time.Time"},
		"no tag":      {struct{ A string }{}, "field A: it needs a json tag"},
		"empty name": {struct {
			A string `json:",omitempty"`
		}{}, "field A: it needs a json tag"},
		"dash": {struct {
			A string `json:"-"`
		}{}, "field A: it needs a json tag"},
		"name with dot": {struct {
			A string `json:"a.b"`
		}{}, "field A: it needs a json tag"},
		"name with space": {struct {
			A string `json:"a b"`
		}{}, "field A: it needs a json tag"},
		"name of a digit": {struct {
			A string `json:"1a"`
		}{}, "field A: it needs a json tag"},
		"name not ASCII": {struct {
			A string `json:"é"`
		}{}, "field A: it needs a json tag"},
		"name twice": {twice, `two fields have the name "a"`},
		"twice, embedded": {struct {
			shared
			B int `json:"zone"`
		}{}, `two fields have the name "zone"`},
		"option string": {struct {
			A int `json:"a,omitempty,string"`
		}{}, `json option "string"`},
		"required yes": {struct {
			A int `json:"a" required:"yes"`
		}{}, `the tag required is "yes"`},
		"sensitive 1": {struct {
			A int `json:"a" sensitive:"1"`
		}{}, `the tag sensitive is "1"`},
		"default, too": {struct {
			A int `json:"a" required:"true" default:"1"`
		}{}, "has a default and is required"},
		"default bool": {struct {
			A bool `json:"a" default:"t"`
		}{}, `default "t" does not fit the type bool`},
		"default int": {struct {
			A int `json:"a" default:"1.5"`
		}{}, `default "1.5" does not fit the type int`},
		"default float": {struct {
			A float64 `json:"a" default:"x"`
		}{}, `default "x" does not fit the type float`},
		"default duration": {struct {
			A sdk.Duration `json:"a" default:"90"`
		}{}, `default "90" does not fit the type duration`},
		"default bytes": {struct {
			A sdk.Bytes `json:"a" default:"64MB"`
		}{}, `default "64MB" does not fit the type bytes`},
		"default oneof": {struct {
			A string `json:"a" default:"c" oneof:"a,b"`
		}{}, `default "c" is not one of`},
		"block default": {struct {
			A tlsSettings `json:"a" default:"{}"`
		}{}, "neither a default nor oneof"},
		"blocks oneof": {struct {
			A []tlsSettings `json:"a" oneof:"a"`
		}{}, "neither a default nor oneof"},

		"uint": {struct {
			A uint `json:"a"`
		}{}, "type uint has no schema"},
		"int32": {struct {
			A int32 `json:"a"`
		}{}, "type int32 has no schema"},
		"float32": {struct {
			A float32 `json:"a"`
		}{}, "type float32 has no schema"},
		"any": {struct {
			A any `json:"a"`
		}{}, "has no schema"},
		"channel": {struct {
			A chan int `json:"a"`
		}{}, "type chan int has no schema"},
		"bytes": {struct {
			A []byte `json:"a"`
		}{}, "type []uint8 has no schema"},
		"ints": {struct {
			A []int `json:"a"`
		}{}, "type []int has no schema"},
		"array": {struct {
			A [2]string `json:"a"`
		}{}, "type [2]string has no schema"},
		"map of ints": {struct {
			A map[string]int `json:"a"`
		}{}, "type map[string]int has no schema"},
		"pointer to a string": {struct {
			A *string `json:"a"`
		}{}, "type *string has no schema"},
		"pointer to pointer": {struct {
			A **tlsSettings `json:"a"`
		}{}, "has no schema"},
		"slice of pointers": {struct {
			A []*tlsSettings `json:"a"`
		}{}, "has no schema"},
		"slice of blocks' own": {struct {
			A [][]tlsSettings `json:"a"`
		}{}, "has no schema"},
		"time.Duration": {struct {
			A time.Duration `json:"a"`
		}{}, "use sdk.Duration"},
		"time.Time": {struct {
			A time.Time `json:"a"`
		}{}, "type time.Time has no schema"},
		"reads its own text": {struct {
			A []netip.Addr `json:"a"`
		}{}, "has no schema"},
		"in a block": {struct {
			A struct {
				B uint `json:"b"`
			} `json:"a"`
		}{}, "field A: schema of struct { B uint"},

		"embedded pointer":   {struct{ *Limits }{}, "field Limits: it needs a json tag"},
		"embedded no struct": {struct{ level }{}, "field level: an embedded type must be exported"},
		"embedded with a name": {struct {
			shared `json:"shared"`
		}{}, "field shared: an embedded type must be exported"},

		"slice of itself":   {tree{}, "schema of sdk_test.tree: it holds itself"},
		"pointer to itself": {chain{}, "schema of sdk_test.chain: it holds itself"},
		"itself by another": {ping{}, "schema of sdk_test.ping: it holds itself"},
		"itself embedded":   {outside{}, "schema of sdk_test.outside: it holds itself"},
		"endless slices": {struct {
			A list `json:"a"`
		}{}, "type sdk_test.list has no schema"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := sdk.SchemaOf(c.v)
			if err == nil || !strings.Contains(err.Error(), c.want) || len(got.Fields) != 0 {
				t.Errorf("%+v and %v, want an error with %q", got, err, c.want)
			}
		})
	}
}

// The same struct in two places is no recursion.
func TestSchemaOfAStructUsedTwice(t *testing.T) {
	type both struct {
		A tlsSettings   `json:"a"`
		B []tlsSettings `json:"b"`
		C *nodeSettings `json:"c"`
	}
	if _, err := sdk.SchemaOf(both{}); err != nil {
		t.Error(err)
	}
}

// An embedded type with a json tag is a block like any other.
func TestSchemaOfAnEmbeddedBlock(t *testing.T) {
	type settings struct {
		Limits `json:"limits"`
	}
	got, err := sdk.SchemaOf(settings{})
	want := sdk.Schema{Fields: []sdk.Field{{Name: "limits", Type: sdk.TypeBlock, Block: []sdk.Field{{Name: "memory", Type: sdk.TypeBytes}}}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v; -want +got:\n%s", err, diff)
	}
}
