package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"

	"github.com/slipway-run/slipway/sdk"
)

// Load reads a file; a name that ends in .json is in HCL's JSON syntax. It runs nothing. All that is wrong is found at once. The
// configuration is never nil, and holds what could be read even where there are errors, so that a validator can go on with the plugins' own
// blocks; nothing else may use it then.
func Load(file string) (*Config, hcl.Diagnostics) {
	src, err := readFile(file)
	if err != nil {
		return &Config{File: file}, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Cannot read the configuration", Detail: err.Error() + "."}}
	}
	return Parse(src, file)
}

// Parse is Load for a file's content.
func Parse(src []byte, filename string) (*Config, hcl.Diagnostics) {
	c := &Config{File: filename}
	r := reader{envInSafe: true}
	if why := bound(src); why != "" {
		r.wrong(hcl.Range{Filename: filename, Start: hcl.InitialPos, End: hcl.InitialPos}, "File out of bounds", "%s", why)
		return c, r.diags
	}
	if i := notText(src); i >= 0 {
		at := hcl.Pos{Line: bytes.Count(src[:i], []byte("\n")) + 1, Column: 1, Byte: i}
		r.wrong(hcl.Range{Filename: filename, Start: at, End: at}, "Not a text file", "Byte %d of the file is 0x%02x, which text in UTF-8 does not have there. Is this the right file? If so, save it in UTF-8.", i+1, src[i])
		return c, r.diags
	}
	parse := func() (*hcl.File, hcl.Diagnostics) { return hclsyntax.ParseConfig(src, filename, hcl.InitialPos) }
	if strings.HasSuffix(filename, ".json") {
		parse = func() (*hcl.File, hcl.Diagnostics) { return json.Parse(src, filename) }
	}
	file, diags := parse()
	r.diags = diags
	if diags.HasErrors() {
		return c, r.finish()
	}
	r.file(c, file.Body)
	return c, r.finish()
}

// Default is the configuration where there is no file: one worker "memory" of the plugin "memory", whose program slipway-memory
// lies beside slipway.
func Default() *Config {
	return &Config{
		Plugins:   []Plugin{{Name: "memory", Command: "slipway-memory"}},
		Workers:   []Worker{{Name: "memory", Plugin: "memory"}},
		Placement: defaultPlacement(),
		Timing:    Timing{MissingGrace: 5 * time.Minute, WorkerGone: 5 * time.Minute, Stalled: 30 * time.Second, Answer: 30 * time.Minute, Prune: 5 * time.Minute},
		Reaping:   Reaping{Every: 30 * time.Second, Failed: 120 * time.Hour, Abandoned: 24 * time.Hour, Records: 7 * 24 * time.Hour},
		Artifacts: Artifacts{Quota: 16 << 30, TTL: 12 * time.Hour, CacheTTL: 30 * 24 * time.Hour},
	}
}

// The placement that Concourse has.
func defaultPlacement() Placement {
	return Placement{
		Build:   []string{"volume-locality", "fewest-build-containers"},
		NoInput: []string{"volume-locality", "fewest-build-containers"},
		Check:   []string{"random"},
	}
}

// Strategies lists the names that a placement block may use.
func Strategies() []string {
	return []string{"random", "volume-locality", "fewest-build-containers", "limit-active-tasks", "limit-active-containers", "limit-active-volumes"}
}

// isName is [a-z0-9]([a-z0-9-]*[a-z0-9])?.
func isName(s string) bool {
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-') {
			return false
		}
	}
	return s != "" && s[0] != '-' && s[len(s)-1] != '-'
}

func pluginFields() []sdk.Field {
	return []sdk.Field{
		{Name: "command", Type: sdk.TypeString, Required: true, Doc: "the program to run, such as \"slipway-garden\"."},
		{Name: "args", Type: sdk.TypeStrings},
		{Name: "env", Type: sdk.TypeMap, Sensitive: true},
		{Name: "sha256", Type: sdk.TypeString},
	}
}

func workerFields() []sdk.Field {
	return []sdk.Field{
		{Name: "plugin", Type: sdk.TypeString, Required: true, Doc: "the name of a plugin block."},
		{Name: "platform", Type: sdk.TypeString},
		{Name: "team", Type: sdk.TypeString},
		{Name: "tags", Type: sdk.TypeStrings},
		{Name: "max_containers", Type: sdk.TypeInt},
		{Name: "max_tasks", Type: sdk.TypeInt},
		{Name: "max_volumes", Type: sdk.TypeInt},
		{Name: "ephemeral", Type: sdk.TypeBool},
	}
}

func placementFields() []sdk.Field {
	return []sdk.Field{
		{Name: "max_containers", Type: sdk.TypeInt},
		{Name: "max_tasks", Type: sdk.TypeInt},
		{Name: "max_volumes", Type: sdk.TypeInt},
		{Name: "max_steps", Type: sdk.TypeInt},
		{Name: "max_passed", Type: sdk.TypeInt},
		{Name: "wait_limit", Type: sdk.TypeDuration},
		{Name: "build", Type: sdk.TypeStrings},
		{Name: "no_input", Type: sdk.TypeStrings},
		{Name: "check", Type: sdk.TypeStrings},
	}
}

func timingFields() []sdk.Field {
	return []sdk.Field{
		{Name: "missing_grace", Type: sdk.TypeDuration},
		{Name: "worker_gone", Type: sdk.TypeDuration},
		{Name: "stalled", Type: sdk.TypeDuration},
		{Name: "answer", Type: sdk.TypeDuration},
		{Name: "prune", Type: sdk.TypeDuration},
	}
}

func reapingFields() []sdk.Field {
	return []sdk.Field{
		{Name: "every", Type: sdk.TypeDuration},
		{Name: "failed", Type: sdk.TypeDuration},
		{Name: "abandoned", Type: sdk.TypeDuration},
		{Name: "records", Type: sdk.TypeDuration},
		{Name: "keep_failed", Type: sdk.TypeBool},
		{Name: "output_size", Type: sdk.TypeBytes},
	}
}

func (r *reader) file(c *Config, body hcl.Body) {
	content := r.content(body, nil,
		hcl.BlockHeaderSchema{Type: "plugin", LabelNames: []string{"name"}}, hcl.BlockHeaderSchema{Type: "worker", LabelNames: []string{"name"}},
		hcl.BlockHeaderSchema{Type: "placement"}, hcl.BlockHeaderSchema{Type: "timing"}, hcl.BlockHeaderSchema{Type: "reaping"}, hcl.BlockHeaderSchema{Type: "artifacts"})
	defaults := Default()
	c.Placement, c.Timing, c.Reaping, c.Artifacts = defaults.Placement, defaults.Timing, defaults.Reaping, defaults.Artifacts
	blocks := content.Blocks.ByType()
	r.named("plugin", blocks["plugin"])
	r.named("worker", blocks["worker"])

	var plugins []string
	for _, b := range blocks["plugin"] {
		plugins = append(plugins, b.Labels[0])
		c.Plugins = append(c.Plugins, r.plugin(b))
	}
	for _, b := range blocks["worker"] {
		c.Workers = append(c.Workers, r.worker(b, plugins))
	}
	if b := r.single("placement", blocks["placement"]); b != nil {
		r.placement(&c.Placement, b, c.Workers)
	}
	if b := r.single("timing", blocks["timing"]); b != nil {
		r.timing(&c.Timing, b)
	}
	if b := r.single("reaping", blocks["reaping"]); b != nil {
		r.reaping(&c.Reaping, b)
	}
	if b := r.single("artifacts", blocks["artifacts"]); b != nil {
		r.artifacts(&c.Artifacts, b)
	}
	if len(c.Workers) == 0 && !r.diags.HasErrors() {
		at := content.MissingItemRange
		r.diags = append(r.diags, &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "No workers",
			Detail: "Nothing can run without a worker block. A file replaces the built-in configuration as a whole.", Subject: &at})
	}
}

// named checks the labels of blocks.
func (r *reader) named(what string, blocks []*hcl.Block) {
	first := make(map[string]hcl.Range)
	for _, b := range blocks {
		name := b.Labels[0]
		if !isName(name) {
			r.wrong(b.LabelRanges[0], "Wrong name", "The name %q of a %s must be of a-z, 0-9 and inner \"-\".", name, what)
		}
		if at, ok := first[name]; ok {
			r.wrong(b.DefRange, "Duplicate name", "There is a %s %q already at %s.", what, name, place(at))
			continue
		}
		first[name] = b.DefRange
	}
}

// single is the only block of its kind, or nil.
func (r *reader) single(what string, blocks []*hcl.Block) *hcl.Block {
	if len(blocks) == 0 {
		return nil
	}
	for _, b := range blocks[1:] {
		r.wrong(b.DefRange, "Duplicate block", "There is a block %q already at %s; there can be one.", what, place(blocks[0].DefRange))
	}
	return blocks[0]
}

func (r *reader) plugin(b *hcl.Block) Plugin {
	content := r.content(b.Body, pluginFields(), hcl.BlockHeaderSchema{Type: "config"})
	v := r.settings(content, pluginFields())
	p := Plugin{Name: b.Labels[0], Range: b.DefRange, Body: r.body(content)}
	p.Command, _ = v["command"].(string)
	p.Args, _ = v["args"].([]string)
	p.Env, _ = v["env"].(map[string]string)
	p.SHA256, _ = v["sha256"].(string)
	if attr := content.Attributes["command"]; v["command"] == "" {
		r.wrong(attr.Expr.Range(), "Wrong value", "The command is empty; it must name a program.")
	}
	if p.SHA256 != "" || v["sha256"] == "" {
		if sum, err := hex.DecodeString(p.SHA256); err != nil || len(sum) != sha256.Size {
			r.wrong(content.Attributes["sha256"].Expr.Range(), "Wrong value",
				"A SHA-256 is 64 hexadecimal digits, as \"sha256sum %s\" prints them.", p.Command)
		}
		p.SHA256 = strings.ToLower(p.SHA256)
	}
	for name, value := range p.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			r.wrong(content.Attributes["env"].NameRange, "Wrong name", "%q cannot be an environment variable: names are not empty and without \"=\", and NUL is in neither name nor value.", name)
		}
	}
	return p
}

func (r *reader) worker(b *hcl.Block, plugins []string) Worker {
	content := r.content(b.Body, workerFields(), hcl.BlockHeaderSchema{Type: "config"})
	v := r.settings(content, workerFields())
	w := Worker{Name: b.Labels[0], Range: b.DefRange, Body: r.body(content)}
	w.Plugin, _ = v["plugin"].(string)
	w.Platform, _ = v["platform"].(string)
	w.Team, _ = v["team"].(string)
	w.Tags, _ = v["tags"].([]string)
	w.Limits = r.limits(content, v)
	w.Ephemeral, _ = v["ephemeral"].(bool)
	if _, ok := v["plugin"]; ok && !slices.Contains(plugins, w.Plugin) {
		hint := didYouMean(w.Plugin, plugins)
		if hint == "" {
			hint = fmt.Sprintf(" Write a block: plugin %q { command = ... }", w.Plugin)
		}
		r.wrong(content.Attributes["plugin"].Expr.Range(), "Unknown plugin", "There is no plugin %q in this file.%s", w.Plugin, hint)
	}
	for _, name := range []string{"platform", "team"} {
		if v[name] == "" {
			r.wrong(content.Attributes[name].Expr.Range(), "Wrong value", "The %s is empty; leave the line out to take the plugin's.", name)
		}
	}
	for i, tag := range w.Tags {
		if tag == "" || slices.Contains(w.Tags[:i], tag) {
			r.wrong(content.Attributes["tags"].Expr.Range(), "Wrong value", "Tag %d, %q, is empty or there twice.", i+1, tag)
		}
	}
	return w
}

// body is that of the config block.
func (r *reader) body(content *hcl.BodyContent) hcl.Body {
	b := r.single("config", content.Blocks.OfType("config"))
	if b == nil {
		return nil
	}
	attrs, _ := b.Body.JustAttributes() // what the plugin makes of them is not known yet, so all may be secret
	for _, a := range attrs {
		r.keepSecret(a.Expr)
	}
	return b.Body
}

func (r *reader) placement(p *Placement, b *hcl.Block, workers []Worker) {
	content := r.content(b.Body, placementFields())
	v := r.settings(content, placementFields())
	p.Limits = r.limits(content, v)
	chain := func(name string, chain *[]string) {
		names, ok := v[name].([]string)
		if !ok {
			return
		}
		*chain = names
		items, _ := hcl.ExprList(content.Attributes[name].Expr)
		for i, s := range names {
			if !slices.Contains(Strategies(), s) {
				r.wrong(items[i].Range(), "Unknown strategy", "There is no strategy %q.%s Known are %s.", s, didYouMean(s, Strategies()), strings.Join(Strategies(), ", "))
				continue
			}
			if slices.Contains(names[:i], s) {
				r.wrong(items[i].Range(), "Duplicate strategy", "%q is in the chain already, where it has decided all that it can.", s)
			}
			for _, k := range limitKinds() {
				if s == k.strategy && content.Attributes[k.name] == nil && !slices.ContainsFunc(workers, func(w Worker) bool { return k.limit(w.Limits) > 0 }) {
					r.wrong(items[i].Range(), "Strategy without a limit", "%q limits nothing, as nothing says how many: write %s = N into this block or into a worker block.", s, k.name)
				}
			}
		}
	}
	chain("build", &p.Build)
	p.NoInput = slices.Clone(p.Build)
	chain("no_input", &p.NoInput)
	chain("check", &p.Check)
	for _, k := range limitKinds() {
		if k.limit(p.Limits) > 0 && !slices.Contains(slices.Concat(p.Build, p.NoInput, p.Check), k.strategy) {
			r.wrong(content.Attributes[k.name].Range, "Limit without effect", "%q holds in the chains that name %q, and none does: add it to build, no_input or check.", k.name, k.strategy)
		}
	}
	p.Steps = r.atLeastOne(content, v, "max_steps")
	p.MaxPassed = r.atLeastOne(content, v, "max_passed")
	r.patience(content, v, "wait_limit", &p.WaitLimit)
}

// limitKind is a limit, with the strategy in whose chains that of the placement block holds; a worker's own holds in all.
type limitKind struct {
	name, strategy string
	limit          func(Limits) int
}

func limitKinds() []limitKind {
	return []limitKind{
		{"max_containers", "limit-active-containers", func(l Limits) int { return l.Containers }},
		{"max_tasks", "limit-active-tasks", func(l Limits) int { return l.Tasks }},
		{"max_volumes", "limit-active-volumes", func(l Limits) int { return l.Volumes }},
	}
}

// limits are those of a worker or a placement block.
func (r *reader) limits(content *hcl.BodyContent, v map[string]any) Limits {
	return Limits{Containers: r.atLeastOne(content, v, "max_containers"), Tasks: r.atLeastOne(content, v, "max_tasks"), Volumes: r.atLeastOne(content, v, "max_volumes")}
}

// atLeastOne is a number that bounds something; 0 where there is none, or a wrong one.
func (r *reader) atLeastOne(content *hcl.BodyContent, v map[string]any, name string) int {
	n, ok := v[name].(int64)
	if !ok {
		return 0
	}
	if n <= 0 || n > math.MaxInt32 {
		r.wrong(content.Attributes[name].Expr.Range(), "Wrong value", "%q must be at least 1; leave the line out for the default.", name)
		return 0
	}
	return int(n)
}

func (r *reader) timing(t *Timing, b *hcl.Block) {
	r.durations(b, timingFields(), map[string]*time.Duration{"missing_grace": &t.MissingGrace, "worker_gone": &t.WorkerGone, "stalled": &t.Stalled, "answer": &t.Answer, "prune": &t.Prune})
}

func (r *reader) reaping(t *Reaping, b *hcl.Block) {
	content, v := r.durations(b, reapingFields(), map[string]*time.Duration{"every": &t.Every, "failed": &t.Failed, "abandoned": &t.Abandoned, "records": &t.Records})
	t.KeepFailed, _ = v["keep_failed"].(bool)
	t.OutputSize = r.size(content, v, "output_size")
}

// durations reads a block with them, none of which may be nothing, and gives all that it says.
func (r *reader) durations(b *hcl.Block, fields []sdk.Field, to map[string]*time.Duration) (*hcl.BodyContent, map[string]any) {
	content := r.content(b.Body, fields)
	v := r.settings(content, fields)
	for name, d := range to {
		r.patience(content, v, name, d)
	}
	return content, v
}

// patience takes a duration, which must not be nothing.
func (r *reader) patience(content *hcl.BodyContent, v map[string]any, name string, d *time.Duration) {
	s, ok := v[name].(string)
	if !ok {
		return
	}
	*d, _ = time.ParseDuration(s) // checked by its type
	if *d <= 0 {
		r.wrong(content.Attributes[name].Expr.Range(), "Wrong value", "%q must be more than nothing; leave the line out for the default.", name)
	}
}

func dirOf(file string) string {
	if file == "" {
		return ""
	}
	return filepath.Dir(file)
}
