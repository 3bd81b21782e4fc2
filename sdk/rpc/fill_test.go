package rpc_test

import (
	"fmt"
	"reflect"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// filled makes a value in which no field is zero and no two alike fields are equal, so that a field that gets lost or
// confused with another shows. Strings hold a byte that is no UTF-8 where the contract allows any bytes.
func filled[T any]() T {
	var v T
	n := 0
	fill(reflect.ValueOf(&v).Elem(), "", &n)
	return v
}

func fill(v reflect.Value, name string, n *int) {
	*n++
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, *n, 123456789, time.UTC)))
		return
	case reflect.TypeFor[map[string]string]():
		v.Set(reflect.ValueOf(map[string]string{fmt.Sprintf("key-%d", *n): "välue"}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		switch name {
		case "Path", "Dir":
			v.SetString(fmt.Sprintf("/p\xff-%d", *n))
		case "Env":
			v.SetString(fmt.Sprintf("NAME=\xff-%d", *n))
		case "Args", "Import", "LinkTarget":
			v.SetString(fmt.Sprintf("bytes\xff-%d", *n))
		default:
			v.SetString(fmt.Sprintf("s-%d", *n))
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8: // an enumeration
		v.SetUint(1)
	case reflect.Uint16:
		v.SetUint(uint64(*n))
	case reflect.Uint32: // fs.FileMode
		v.SetUint(0o751)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name, n)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte{byte(*n), 0xff, 0})
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), name, n)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), v.Type().Field(i).Name, n)
		}
	default:
		panic(fmt.Sprintf("fill: no value for %v of %s", v.Type(), name))
	}
}

// Specs have fields that exclude each other.

func volumeSpecs() []sdk.VolumeSpec {
	clone := filled[sdk.VolumeSpec]()
	imported := clone
	clone.Import, imported.Clone = "", ""
	return []sdk.VolumeSpec{clone, imported, {ID: "v", Token: "t"}}
}

func containerSpecs() []sdk.ContainerSpec {
	volume := filled[sdk.ContainerSpec]()
	volume.Limits.Containers, volume.Limits.Volumes = 0, 0 // a container has none
	ref := volume
	volume.Image.Ref, ref.Image.Volume = "", ""
	return []sdk.ContainerSpec{volume, ref, {ID: "c", Token: "t"}}
}

func processSpecs() []sdk.ProcessSpec {
	full := filled[sdk.ProcessSpec]()
	block := full
	block.WhenFull, block.TTY = sdk.BlockWriter, nil
	return []sdk.ProcessSpec{full, block, {ID: "p", Token: "t", Path: "true"}}
}
