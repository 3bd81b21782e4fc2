package config

import (
	"cmp"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/slipway-run/slipway/sdk"
)

// Artifacts says how much the host keeps of artifacts and caches, and for how long, and what it unpacks. Each zero field means the documented
// default, which Load has filled in but for those of unpacking and of streams.
type Artifacts struct {
	Quota    int64         // bytes of all uploads that the state directory keeps, until a worker has them; default 16GiB
	Upload   int64         // upload_size in the file: bytes of one of them, not more than Quota; default: as many as that
	TTL      time.Duration // how long an artifact is kept that nobody owns, unless who made it has said; default 12h
	CacheTTL time.Duration // cache_ttl in the file: how long a cache is kept after its last use; default 720h

	// UnpackSize and UnpackEntries, unpack_size and unpack_entries in the file, bound what one artifact may come to in a directory of this
	// machine: the bytes of its files, and how many files, directories and links it has. Default 1TiB and 20 million.
	UnpackSize    int64
	UnpackEntries int

	// StreamSize and StreamUnpackedSize, stream_size and stream_unpacked_size in the file, bound what one stream may bring to a worker: bytes as they are sent,
	// and those of the archive. While either is set, no volume goes directly from worker to worker, where nobody would count. Default: any number.
	StreamSize         int64
	StreamUnpackedSize int64
}

func artifactsFields() []sdk.Field {
	return []sdk.Field{
		{Name: "quota", Type: sdk.TypeBytes},
		{Name: "upload_size", Type: sdk.TypeBytes},
		{Name: "ttl", Type: sdk.TypeDuration},
		{Name: "cache_ttl", Type: sdk.TypeDuration},
		{Name: "unpack_size", Type: sdk.TypeBytes},
		{Name: "unpack_entries", Type: sdk.TypeInt},
		{Name: "stream_size", Type: sdk.TypeBytes},
		{Name: "stream_unpacked_size", Type: sdk.TypeBytes},
	}
}

func (r *reader) artifacts(a *Artifacts, b *hcl.Block) {
	content := r.content(b.Body, artifactsFields())
	v := r.settings(content, artifactsFields())
	r.patience(content, v, "ttl", &a.TTL)
	r.patience(content, v, "cache_ttl", &a.CacheTTL)
	a.Quota = cmp.Or(r.size(content, v, "quota"), a.Quota)
	if a.Upload = r.size(content, v, "upload_size"); a.Upload > a.Quota {
		r.wrong(content.Attributes["upload_size"].Expr.Range(), "Limit without effect", "%q is more than \"quota\", which is %d bytes: raise that, too, or make this at most as much.", "upload_size", a.Quota)
	}
	a.UnpackSize = r.size(content, v, "unpack_size")
	a.UnpackEntries = r.atLeastOne(content, v, "unpack_entries")
	a.StreamSize = r.size(content, v, "stream_size")
	a.StreamUnpackedSize = r.size(content, v, "stream_unpacked_size")
}

// size is a number of bytes; 0 where there is none, or a wrong one.
func (r *reader) size(content *hcl.BodyContent, v map[string]any, name string) int64 {
	s, ok := v[name].(string)
	if !ok {
		return 0
	}
	n, _ := sdk.ParseBytes(s) // checked by its type
	if n <= 0 {
		r.wrong(content.Attributes[name].Expr.Range(), "Wrong value", "%q must be more than nothing; leave the line out for the default.", name)
	}
	return int64(n)
}
