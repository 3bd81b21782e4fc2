package job

import (
	"path"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// caches takes a list of paths. A cache may lie within an input; nothing may lie within a cache, and it within nothing else.
func (r *reader) caches(s *Step, c *hcl.BodyContent) {
	dir := s.Dir
	if dir == "" {
		dir = defaultDir
	}
	mounted := make(map[string]string) // what is at a path in the container, but for caches
	inputs := make(map[string]bool)
	for key := range s.Inputs {
		if full, why := resolve(dir, key); why == "" {
			mounted[full], inputs[full] = "the input path "+quoted(key), true
		}
	}
	for key := range s.Shared {
		if full, why := resolve(dir, key); why == "" {
			mounted[full], inputs[full] = "the shared path "+quoted(key), false
		}
	}
	for _, o := range s.Outputs {
		mounted[path.Join(dir, o)], inputs[path.Join(dir, o)] = "the output "+quoted(o), false
	}
	caches := make(map[string]string)
	for _, t := range r.list(c, "caches") {
		full, why := resolve(dir, t.text)
		if why != "" {
			r.wrong(t.at, "Wrong path", "The cache path %.80q %s.", t.text, why)
			continue
		}
		if other, ok := mounted[full]; ok {
			r.wrong(t.at, "Overlapping cache", "The cache path %q is that of %s.", t.text, other)
		}
		if other, ok := caches[full]; ok {
			r.wrong(t.at, "Duplicate cache", "The cache paths %q and %q are one and the same.", t.text, other)
			continue
		}
		for other, what := range mounted {
			if within(other, full) {
				r.wrong(t.at, "Overlapping cache", "The cache path %q holds %s, which it would keep or hide.", t.text, what)
			}
			if within(full, other) && !inputs[other] {
				r.wrong(t.at, "Overlapping cache", "The cache path %q is inside %s, which would not have it.", t.text, what)
			}
		}
		for other, text := range caches {
			if within(other, full) || within(full, other) {
				r.wrong(t.at, "Overlapping cache", "One of the cache paths %q and %q is inside the other.", t.text, text)
			}
		}
		caches[full] = t.text
		s.Caches = append(s.Caches, t.text)
	}
	r.duration(c, "cache_ttl", &s.CacheTTL)
	if attr, ok := c.Attributes["cache_ttl"]; ok && c.Attributes["caches"] == nil {
		r.wrong(attr.Range, "Nothing to keep", "\"cache_ttl\" says how long caches are kept, and the step has none: add caches = [\"PATH\"], or leave the line out.")
	}
}

// within tells whether a clean absolute path lies below another one.
func within(inner, outer string) bool {
	return inner != outer && strings.HasPrefix(inner, strings.TrimSuffix(outer, "/")+"/")
}
