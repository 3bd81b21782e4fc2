package config

import (
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/slipway-run/slipway/sdk"
)

// Artifacts says how much the host keeps of artifacts and caches, and for how long. Each zero field means the documented default, which Load
// has filled in.
type Artifacts struct {
	Quota    int64         // bytes of all uploads that the state directory keeps, until a worker has them; default 16GiB
	TTL      time.Duration // how long an artifact is kept that nobody owns, unless who made it has said; default 12h
	CacheTTL time.Duration // cache_ttl in the file: how long a cache is kept after its last use; default 720h
}

func artifactsFields() []sdk.Field {
	return []sdk.Field{
		{Name: "quota", Type: sdk.TypeBytes},
		{Name: "ttl", Type: sdk.TypeDuration},
		{Name: "cache_ttl", Type: sdk.TypeDuration},
	}
}

func (r *reader) artifacts(a *Artifacts, b *hcl.Block) {
	content := r.content(b.Body, artifactsFields())
	v := r.settings(content, artifactsFields())
	r.patience(content, v, "ttl", &a.TTL)
	r.patience(content, v, "cache_ttl", &a.CacheTTL)
	s, ok := v["quota"].(string)
	if !ok {
		return
	}
	n, _ := sdk.ParseBytes(s) // checked by its type
	if n <= 0 {
		r.wrong(content.Attributes["quota"].Expr.Range(), "Wrong value", "%q must be more than nothing; leave the line out for the default.", "quota")
	}
	a.Quota = int64(n)
}
