package sdk

import (
	"fmt"
	"reflect"
	"strings"
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
	Default   string   // as an operator would write it; empty: the type's zero value
	OneOf     []string // the only values allowed; empty: any
	Sensitive bool     // never shown
	Doc       string   // one sentence
	Block     []Field  // of TypeBlock and TypeBlocks
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

// SchemaOf makes the schema of a struct. Each exported field needs a json tag with its name; `required:"true"`, `default:"64MiB"`,
// `oneof:"a,b"`, `sensitive:"true"` and `doc:"..."` say the rest. Field types: string, bool, int, int64, float64, [Duration],
// [Bytes], []string, map[string]string, a struct or pointer to one (a nested block), a slice of structs (many). Nil makes
// the empty schema. An error is a mistake in the plugin's own code.
func SchemaOf(v any) (Schema, error) {
	if v == nil {
		return Schema{}, nil
	}
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	fields, err := fieldsOf(t)
	return Schema{Fields: fields}, err
}

func fieldsOf(t reflect.Type) ([]Field, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("schema of %v: want a struct", t)
	}
	var fields []Field
	for f := range t.Fields() {
		if !f.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			return nil, fmt.Errorf("schema of %v: field %s needs a json tag with its name", t, f.Name)
		}
		field := Field{
			Name:      name,
			Required:  f.Tag.Get("required") == "true",
			Default:   f.Tag.Get("default"),
			Sensitive: f.Tag.Get("sensitive") == "true",
			Doc:       f.Tag.Get("doc"),
		}
		if s := f.Tag.Get("oneof"); s != "" {
			field.OneOf = strings.Split(s, ",")
		}
		if err := field.setType(f.Type); err != nil {
			return nil, fmt.Errorf("schema of %v: field %s: %w", t, f.Name, err)
		}
		fields = append(fields, field)
	}
	return fields, nil
}

func (f *Field) setType(t reflect.Type) error {
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
	}
	switch t.Kind() {
	case reflect.String:
		f.Type = TypeString
	case reflect.Bool:
		f.Type = TypeBool
	case reflect.Int, reflect.Int64:
		f.Type = TypeInt
	case reflect.Float64:
		f.Type = TypeFloat
	case reflect.Struct:
		return f.setBlock(TypeBlock, t)
	case reflect.Pointer:
		return f.setBlock(TypeBlock, t.Elem())
	case reflect.Slice:
		return f.setBlock(TypeBlocks, t.Elem())
	default:
		return fmt.Errorf("type %v has no schema", t)
	}
	return nil
}

func (f *Field) setBlock(typ FieldType, t reflect.Type) error {
	block, err := fieldsOf(t)
	f.Type, f.Block = typ, block
	return err
}
