package keeper

import (
	"math"
	"sort"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// memory is the Store for processes that live no longer than their keeper.
type memory struct {
	maxBytes   int64
	maxRecords int

	mu          sync.Mutex
	oldest, end sdk.Position
	records     []sdk.Record // from oldest to end, without holes
}

func newMemory(spill int64) *memory {
	return &memory{maxBytes: math.MaxInt64, maxRecords: recordsFor(spill)}
}

func (m *memory) Bounds() (oldest, end sdk.Position) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.oldest, m.end
}

func (m *memory) Append(stream sdk.Stream, at time.Time, p []byte) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	p = p[:min(int64(len(p)), m.maxBytes-int64(m.end-m.oldest), recordBytes)]
	if len(p) == 0 {
		return 0
	}
	r, room := m.last(stream, at)
	if room == 0 {
		if len(m.records) >= m.maxRecords {
			return 0
		}
		m.records = append(m.records, sdk.Record{Position: m.end, Stream: stream, Time: at})
		r, room = &m.records[len(m.records)-1], recordBytes
	}
	p = p[:min(int64(len(p)), room)]
	r.Data = append(r.Data, p...) // never moves bytes that a reader is looking at
	m.end += sdk.Position(len(p))
	return len(p)
}

// last gives the last record, and how much of a write may go into it.
func (m *memory) last(stream sdk.Stream, at time.Time) (*sdk.Record, int64) {
	if len(m.records) == 0 {
		return nil, 0
	}
	r := &m.records[len(m.records)-1]
	h := header{stream: r.Stream, at: r.Time, length: int64(len(r.Data))}
	return r, h.joinable(stream, at, recordBytes, len(m.records) > m.maxRecords/2)
}

func (m *memory) Drop(to sdk.Position) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(to)
}

func (m *memory) drop(to sdk.Position) {
	kept := sort.Search(len(m.records), func(i int) bool { return m.records[i].End() > to })
	clear(m.records[:kept])
	m.records = m.records[kept:]
	if len(m.records) == 0 {
		m.records = nil
	} else if r := &m.records[0]; r.Position < to {
		r.Data = r.Data[to-r.Position:]
		r.Position = to
	}
	m.oldest = max(m.oldest, to)
}

func (m *memory) Evict() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.records) == 0 {
		return false
	}
	m.drop(m.records[0].End())
	return true
}

// Seal has nothing to do: Drop leaves nothing as it is.
func (m *memory) Seal() {}

func (m *memory) Reader() Reader { return memoryReader{m} }

type memoryReader struct{ m *memory }

func (r memoryReader) Read(from sdk.Position) ([]sdk.Record, error) { return r.m.read(from), nil }

func (r memoryReader) Close() {}

func (m *memory) read(from sdk.Position) []sdk.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	var batch []sdk.Record
	if from < m.oldest {
		batch = append(batch, gap(from, m.oldest))
		from = m.oldest
	}
	first := sort.Search(len(m.records), func(i int) bool { return m.records[i].End() > from })
	size := 0
	for _, r := range m.records[first:] {
		if skip := from - r.Position; skip > 0 {
			r.Data = r.Data[skip:]
			r.Position = from
		}
		size += len(r.Data)
		if len(batch) > 0 && size > batchBytes || len(batch) == batchRecords {
			break
		}
		batch = append(batch, r)
	}
	return batch
}
