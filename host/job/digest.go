package job

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// digestVersion changes with what a digest is made of.
const digestVersion = "1:"

// Digest tells jobs apart by what they do: the name of the file, positions in it, comments, white space, the order of blocks and what a doc says make no
// other job. A field that is added to the format later changes no digest of a job that does not use it.
func (j *Job) Digest() string {
	same := *j
	same.Inputs = sortedBy(j.Inputs, func(in Input) string { return in.Name })
	same.Outputs = sortedBy(j.Outputs, func(o Output) string { return o.Name })
	same.Steps = sortedBy(j.Steps, func(s Step) string { return s.Name })
	for i := range same.Steps {
		s := &same.Steps[i]
		s.After, s.Tags = slices.Sorted(slices.Values(s.After)), slices.Sorted(slices.Values(s.Tags))
	}
	var text strings.Builder
	canonical(&text, reflect.ValueOf(same))
	sum := sha256.Sum256([]byte(text.String()))
	return digestVersion + hex.EncodeToString(sum[:])
}

func sortedBy[T any](all []T, name func(T) string) []T {
	return slices.SortedFunc(slices.Values(all), func(a, b T) int { return strings.Compare(name(a), name(b)) })
}

// canonical writes a value so that two values give the same text only if they are the same. Of a struct these are the fields that are set.
func canonical(b *strings.Builder, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		b.WriteByte('{')
		for i := range v.NumField() {
			field, value := v.Type().Field(i), v.Field(i)
			empty := value.IsZero() || (value.Kind() == reflect.Slice || value.Kind() == reflect.Map) && value.Len() == 0
			if empty || !field.IsExported() || field.Tag.Get("digest") == "-" || field.Type == reflect.TypeFor[hcl.Range]() {
				continue
			}
			b.WriteString(field.Name + ":")
			canonical(b, value)
		}
		b.WriteByte('}')
	case reflect.Map:
		values := make(map[string]reflect.Value)
		for key, value := range v.Seq2() {
			values[key.String()] = value
		}
		b.WriteByte('{')
		for _, key := range slices.Sorted(maps.Keys(values)) {
			fmt.Fprintf(b, "%q:", key)
			canonical(b, values[key])
		}
		b.WriteByte('}')
	case reflect.Slice:
		b.WriteByte('[')
		for i := range v.Len() {
			canonical(b, v.Index(i))
		}
		b.WriteByte(']')
	case reflect.Pointer:
		canonical(b, v.Elem())
	case reflect.String:
		fmt.Fprintf(b, "%q,", v.String())
	case reflect.Bool, reflect.Int, reflect.Int64:
		fmt.Fprintf(b, "%v,", v.Interface())
	default:
		panic("a field of a job is a " + v.Kind().String() + ", which a digest cannot be made of")
	}
}
