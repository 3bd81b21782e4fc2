package wasi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

const (
	magic   = "\x00asm"
	version = "\x01\x00\x00\x00"

	// maxEntries is how many entries all tables of a program have at most, together: 8 MiB of them.
	maxEntries = 1 << 20
	// maxTables bounds what tables cost apart from their entries.
	maxTables = 64

	sectionTable = 4
)

// vet looks at a program before it is compiled, and returns it with a maximum for each of its tables: they are the one thing
// that could grow beyond all limits, for they are no linear memory. Everything else is left to the compiler's own validation.
func vet(content []byte) ([]byte, error) {
	switch {
	case !bytes.HasPrefix(content, []byte(magic)) || len(content) < 8:
		return nil, errors.New("it is not WebAssembly")
	case string(content[4:8]) != version && content[6] != 0:
		return nil, errors.New("it is a WebAssembly component; a core module is needed, made for wasip1")
	case string(content[4:8]) != version:
		return nil, fmt.Errorf("it is WebAssembly of version %d; only version 1 can be run", binary.LittleEndian.Uint32(content[4:8]))
	}
	for rest := content[8:]; len(rest) > 0; {
		id := rest[0]
		size, body, err := number(rest[1:])
		if err != nil || uint64(size) > uint64(len(body)) {
			return nil, errors.New("it is damaged: a section has no end")
		}
		if id != sectionTable {
			rest = body[size:]
			continue
		}
		tables, err := boundTables(body[:size])
		if err != nil {
			return nil, err
		}
		at := len(content) - len(rest)
		vetted := append([]byte(nil), content[:at]...)
		vetted = append(vetted, sectionTable)
		vetted = binary.AppendUvarint(vetted, uint64(len(tables)))
		vetted = append(vetted, tables...)
		rest = body[size:]
		at = len(vetted)
		vetted = append(vetted, rest...)
		content, rest = vetted, vetted[at:]
	}
	return content, nil
}

// boundTables gives a section of tables a maximum for each.
func boundTables(section []byte) ([]byte, error) {
	damaged := errors.New("it is damaged: its tables cannot be read")
	count, rest, err := number(section)
	if err != nil {
		return nil, damaged
	}
	if count > maxTables {
		return nil, fmt.Errorf("it has %d tables, more than %d", count, maxTables)
	}
	bounded := binary.AppendUvarint(nil, uint64(count))
	least := uint64(0)
	for range count {
		if len(rest) < 2 || rest[1] > 1 { // the kind, and whether there is a maximum
			return nil, damaged
		}
		kind, hasMost := rest[0], rest[1] == 1
		low, after, err := number(rest[2:])
		most := uint32(math.MaxUint32)
		if err == nil && hasMost {
			most, after, err = number(after)
		}
		if err != nil {
			return nil, damaged
		}
		rest = after
		if least += uint64(low); least > maxEntries {
			return nil, fmt.Errorf("its tables have more than %d entries", maxEntries)
		}
		most = min(most, max(low, maxEntries/count))
		bounded = append(bounded, kind, 1)
		bounded = binary.AppendUvarint(bounded, uint64(low))
		bounded = binary.AppendUvarint(bounded, uint64(most))
	}
	if len(rest) > 0 {
		return nil, damaged
	}
	return bounded, nil
}

// number reads an unsigned number of 32 bits, of at most 5 bytes.
func number(b []byte) (n uint32, rest []byte, err error) {
	v, length := binary.Uvarint(b[:min(len(b), 5)])
	if length <= 0 || v > math.MaxUint32 {
		return 0, nil, errors.New("no number of 32 bits")
	}
	return uint32(v), b[length:], nil
}
