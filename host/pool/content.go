package pool

import (
	"cmp"
	"hash/maphash"
	"slices"
)

// digest stands for a content's key, so that a volume costs the same however
// long its key is. It is 128 bits under a random seed: nobody can aim at a
// collision, and the price of one would be a wrong hint to locality.
type digest [2]uint64

// content is one content and where it is.
type content struct {
	digest   digest
	replicas []replica // sorted by slot
}

// replica is a content on one worker.
type replica struct {
	slot  uint32 // the worker's
	place uint32 // in the worker's own list, so that it is dropped without a search
	bytes int64
	used  uint64 // Index.uses when it was used last; 0: not since the index began
}

// AddVolume says that the worker has a sealed volume with that content, of that
// many bytes. A worker has a content once: saying so again only corrects bytes.
// It tells where the content is, and counts no volume: that is ChangeVolume's.
func (x *Index) AddVolume(worker, key string, bytes int64) {
	d := x.digest(key)
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.entry(worker)
	x.addContent(e, d, bytes)
	x.changed(e)
}

// addContent puts a content on e, where it may be already, and gives its replica there, which is good while the lock is held.
func (x *Index) addContent(e *entry, d digest, bytes int64) (r *replica) {
	c := x.contents[d]
	if c == nil {
		c = &content{digest: d}
	}
	i, found := c.find(e.slot)
	if found {
		c.replicas[i].bytes = bytes
		return &c.replicas[i]
	}
	x.around(e, d, func() {
		x.contents[d] = c
		c.replicas = slices.Insert(c.replicas, i, replica{slot: e.slot, place: uint32(len(e.contents)), bytes: bytes})
		e.contents = append(e.contents, c)
		e.usage.Contents++
	})
	return &c.replicas[i]
}

// RemoveVolume takes back AddVolume. Idempotent.
func (x *Index) RemoveVolume(worker, key string) {
	d := x.digest(key)
	x.mu.Lock()
	defer x.mu.Unlock()
	e, c := x.byName[worker], x.contents[d]
	if e == nil || c == nil || !x.dropContent(e, c) {
		return
	}
	x.changed(e)
	x.forget(e)
}

// dropContent takes c off e, and reports whether it was there. The lock is held.
func (x *Index) dropContent(e *entry, c *content) bool {
	i, found := c.find(e.slot)
	if !found {
		return false
	}
	place := c.replicas[i].place
	x.around(e, c.digest, func() {
		c.replicas = slices.Delete(c.replicas, i, i+1)
		if len(c.replicas) == 0 {
			delete(x.contents, c.digest)
		}
	})
	last := len(e.contents) - 1
	moved := e.contents[last]
	e.contents[last] = nil
	e.contents = e.contents[:last]
	if int(place) != last {
		e.contents[place] = moved
		j, _ := moved.find(e.slot)
		moved.replicas[j].place = place
	}
	e.usage.Contents--
	return true
}

func (c *content) find(slot uint32) (int, bool) {
	return slices.BinarySearchFunc(c.replicas, slot, func(r replica, s uint32) int { return cmp.Compare(r.slot, s) })
}

func (x *Index) digest(key string) digest {
	return digest{maphash.String(x.hash[0], key), maphash.String(x.hash[1], key)}
}

// wanted is a content that a spec wants and that some worker has.
type wanted struct {
	*content
	bytes int64 // as the spec has it
}

// wants looks the contents up; one wanted twice is needed once. The lock is held.
func (x *Index) wants(inputs []Content) []wanted {
	found := make([]wanted, 0, len(inputs))
	for _, in := range inputs {
		c := x.contents[x.digest(in.Key)]
		if c == nil || slices.ContainsFunc(found, func(w wanted) bool { return w.content == c }) {
			continue
		}
		found = append(found, wanted{c, in.Bytes})
	}
	return found
}

// worth is what r saves; a replica of unknown size is worth one byte.
func (w wanted) worth(r replica) int64 { return max(cmp.Or(r.bytes, w.bytes), 1) }

// local returns the bytes of the inputs that are on e. The lock is held.
func (x *Index) local(e *entry, inputs []Content) int64 {
	var sum int64
	for _, w := range x.wants(inputs) {
		if i, ok := w.find(e.slot); ok {
			sum += w.worth(w.replicas[i])
		}
	}
	for _, in := range inputs {
		if in.On == e.Name {
			sum += max(in.Bytes, 1)
		}
	}
	return sum
}

// addLocal adds to sums, by slot, what local returns for each worker.
func (x *Index) addLocal(sums []int64, inputs []Content) {
	for _, w := range x.wants(inputs) {
		for _, r := range w.replicas {
			sums[r.slot] += w.worth(r)
		}
	}
	for _, in := range inputs {
		if e := x.byName[in.On]; e != nil {
			sums[e.slot] += max(in.Bytes, 1)
		}
	}
}

// Has tells whether a content is on a worker, or is being brought there.
func (x *Index) Has(worker, key string) bool {
	d := x.digest(key)
	x.mu.RLock()
	defer x.mu.RUnlock()
	e := x.byName[worker]
	return e != nil && x.has(e, d)
}
