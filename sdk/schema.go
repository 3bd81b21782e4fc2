package sdk

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schema describes the settings of a block, so that a host can check an operator's file and point at the line without
// the plugin's help.
type Schema struct {
	Fields []Field
}

// Field is one setting, or one nested block.
type Field struct {
	Name      string
	Type      FieldType
	Required  bool
	Default   string   // as an operator would write it, but a string without its quotes; empty: left out where not set
	OneOf     []string // the only values allowed, of a list or map for each of its values; empty: any
	Sensitive bool     // values are never shown; of a block: those of all its settings
	Doc       string   // one sentence for the operator
	Block     []Field  // of TypeBlock and TypeBlocks; else nil
}

// FieldType is the type of a setting.
type FieldType string

// The types. Their values come to the plugin as JSON: durations and sizes as strings.
const (
	TypeString   FieldType = "string"
	TypeBool     FieldType = "bool"
	TypeInt      FieldType = "int"
	TypeFloat    FieldType = "float"
	TypeDuration FieldType = "duration"
	TypeBytes    FieldType = "bytes"
	TypeStrings  FieldType = "strings" // list of strings
	TypeMap      FieldType = "map"     // strings by name
	TypeBlock    FieldType = "block"   // at most one nested block
	TypeBlocks   FieldType = "blocks"  // any number of them
)

// SchemaOf makes the schema of a struct, or of what a pointer to one points to, with its fields in their order. Each exported field
// needs a json tag with its name; these tags say the rest:
//
//	required:"true"    the operator must set it; not together with a default
//	default:"64MiB"    what the host fills in; not for blocks. Lists and maps as in the file: ["a", "b"]
//	oneof:"a,b"        the only values; not for blocks
//	sensitive:"true"   the host never shows its values
//	doc:"..."          one sentence for the operator
//
// Field types are string, bool, int, int64, float64, types made of these, [Duration], [Bytes], []string, map[string]string, a struct
// or a pointer to one (at most one nested block), and a slice of structs (any number of them). The fields of an embedded
// struct without a json tag count as the struct's own, as in encoding/json. A struct cannot hold itself. Nil makes the empty
// schema.
//
// An error is a mistake in the plugin's own code, found when the plugin is started; the schema is empty then.
func SchemaOf(v any) (Schema, error) {
	if v == nil {
		return Schema{}, nil
	}
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !isBlock(t) {
		return Schema{}, fmt.Errorf("schema of %v: want a struct of settings", t)
	}
	fields, err := fieldsOf(t, nil)
	return Schema{Fields: fields}, err
}

// isBlock tells whether a struct's fields are what its JSON consists of.
func isBlock(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Kind() == reflect.Struct &&
		!p.Implements(reflect.TypeFor[json.Unmarshaler]()) && !p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// fieldsOf gives a struct's fields. Within are the structs around it.
func fieldsOf(t reflect.Type, within []reflect.Type) ([]Field, error) {
	if slices.Contains(within, t) {
		return nil, fmt.Errorf("schema of %v: it holds itself; nested blocks must end somewhere", t)
	}
	within = append(slices.Clip(within), t)
	var fields []Field
	for f := range t.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		if f.Anonymous && tag == "" && isBlock(f.Type) {
			inner, err := fieldsOf(f.Type, within)
			if err != nil {
				return nil, err
			}
			fields = append(fields, inner...)
			continue
		}
		field, err := fieldOf(f, tag, options, within)
		if err != nil {
			return nil, fmt.Errorf("schema of %v: field %s: %w", t, f.Name, err)
		}
		fields = append(fields, field)
	}
	for i, f := range fields {
		if slices.ContainsFunc(fields[:i], func(other Field) bool { return other.Name == f.Name }) {
			return nil, fmt.Errorf("schema of %v: two fields have the name %q", t, f.Name)
		}
	}
	return fields, nil
}

func fieldOf(f reflect.StructField, name, options string, within []reflect.Type) (Field, error) {
	if !f.IsExported() {
		return Field{}, errors.New("an embedded type must be exported, or a struct without a json tag")
	}
	if !isSettingName(name) {
		return Field{}, errors.New("it needs a json tag with its name: a letter, then letters, digits, \"_\" and \"-\"")
	}
	if slices.Contains(strings.Split(options, ","), "string") {
		return Field{}, errors.New("the json option \"string\" does not fit what a host sends")
	}
	field := Field{Name: name, Default: f.Tag.Get("default"), Doc: f.Tag.Get("doc")}
	for tag, flag := range map[string]*bool{"required": &field.Required, "sensitive": &field.Sensitive} {
		switch s := f.Tag.Get(tag); s {
		case "", "false":
		case "true":
			*flag = true
		default:
			return Field{}, fmt.Errorf("the tag %s is %q; it must be \"true\" or \"false\"", tag, s)
		}
	}
	if s := f.Tag.Get("oneof"); s != "" {
		field.OneOf = strings.Split(s, ",")
	}
	if err := field.setType(f.Type, within); err != nil {
		return Field{}, err
	}
	return field, field.check()
}

func isSettingName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i] | 0x20 // letters in lower case
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || !(s[i] >= '0' && s[i] <= '9' || s[i] == '_' || s[i] == '-')) {
			return false
		}
	}
	return s != ""
}

func (f *Field) setType(t reflect.Type, within []reflect.Type) error {
	switch t {
	case reflect.TypeFor[Duration]():
		f.Type = TypeDuration
		return nil
	case reflect.TypeFor[Bytes]():
		f.Type = TypeBytes
		return nil
	case reflect.TypeFor[[]string]():
		f.Type = TypeStrings
		return nil
	case reflect.TypeFor[map[string]string]():
		f.Type = TypeMap
		return nil
	case reflect.TypeFor[time.Duration]():
		return errors.New("type time.Duration would be a number of nanoseconds; use sdk.Duration")
	}
	block := t
	switch t.Kind() {
	case reflect.String:
		f.Type = TypeString
		return nil
	case reflect.Bool:
		f.Type = TypeBool
		return nil
	case reflect.Int, reflect.Int64:
		f.Type = TypeInt
		return nil
	case reflect.Float64:
		f.Type = TypeFloat
		return nil
	case reflect.Struct:
		f.Type = TypeBlock
	case reflect.Pointer:
		f.Type, block = TypeBlock, t.Elem()
	case reflect.Slice:
		f.Type, block = TypeBlocks, t.Elem()
	}
	if f.Type == "" || !isBlock(block) {
		return fmt.Errorf("type %v has no schema", t)
	}
	var err error
	f.Block, err = fieldsOf(block, within)
	return err
}

// check looks for tags that contradict each other or the type. Defaults of lists and maps are in the notation of the
// operator's file, which only a host can read.
func (f *Field) check() error {
	isBlock := f.Type == TypeBlock || f.Type == TypeBlocks
	if isBlock && (f.Default != "" || len(f.OneOf) > 0) {
		return errors.New("a nested block has neither a default nor oneof")
	}
	if f.Default == "" {
		return nil
	}
	if f.Required {
		return errors.New("it has a default and is required; what has a default is never missing")
	}
	isText := f.Type != TypeStrings && f.Type != TypeMap
	if isText && len(f.OneOf) > 0 && !slices.Contains(f.OneOf, f.Default) {
		return fmt.Errorf("its default %q is not one of %q", f.Default, f.OneOf)
	}
	var err error
	switch f.Type {
	case TypeBool:
		if f.Default != "true" && f.Default != "false" {
			err = strconv.ErrSyntax
		}
	case TypeInt:
		_, err = strconv.ParseInt(f.Default, 10, 64)
	case TypeFloat:
		_, err = strconv.ParseFloat(f.Default, 64)
	case TypeDuration:
		_, err = time.ParseDuration(f.Default)
	case TypeBytes:
		_, err = ParseBytes(f.Default)
	}
	if err != nil {
		return fmt.Errorf("its default %q does not fit the type %s", f.Default, f.Type)
	}
	return nil
}
