package host

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// A worker's name may lead to another place when a host begins than it did for the last one: its block, or its plugin's, was changed in between. So its row keeps the settings with
// which it was seen last. Where they are the same, another incarnation means that the place has lost what it had. Where they are not, it has to be the same place by its
// incarnations, or by what it lists, unless nothing is recorded there.

// shownSetting is how long a value may be that is kept as it is, for people.
const shownSetting = 200

// settingsOf are all by which the plugin finds a worker's place, by what people call them. Values are as in JSON; one that may be secret is only told from others.
func (p *plugin) settingsOf(worker string) map[string]string {
	out := make(map[string]string)
	put := func(name string, value any, open bool) {
		if text, err := json.Marshal(value); err == nil { // strings, and what was JSON
			out[name] = p.h.keptSetting(string(text), open)
		}
	}
	put("the plugin's command", p.cfg.Command, true)
	put("the plugin's args", p.cfg.Args, false)
	put("the plugin's env", p.cfg.Env, false)
	put("the configuration's directory", p.dir, true)
	info := p.proc.State().Info
	body := func(of string, body hcl.Body, schema sdk.Schema) {
		values, _ := config.Decode(body, schema, hcl.Range{}) // that it can be read was found when the plugin was given it
		var fields map[string]json.RawMessage
		if len(values) == 0 || json.Unmarshal(values, &fields) != nil {
			return
		}
		for _, f := range schema.Fields {
			if v, is := fields[f.Name]; is {
				put(of+f.Name, v, !f.Sensitive && isLiteral(body, f.Name))
			}
		}
	}
	body("the plugin's ", p.cfg.Body, info.PluginSchema)
	if block, ok := p.block(worker); ok {
		body("", block.Body, info.WorkerSchema)
	}
	return out
}

// keptSetting is a value as it is kept, and shown: as it is if it may be seen by anybody, and has no URL with a user in it, whose password would be seen, too.
func (h *Host) keptSetting(text string, open bool) string {
	if _, url, is := strings.Cut(text, "://"); open && len(text) <= shownSetting && (!is || !strings.Contains(url, "@")) {
		return text
	}
	mac := hmac.New(sha256.New, []byte(h.Installation()))
	mac.Write([]byte(text))
	return hiddenSetting + hex.EncodeToString(mac.Sum(nil))
}

// hiddenSetting is how a value begins that is only told from others.
const hiddenSetting = "hmac:"

// isLiteral tells whether a setting is written out in the file: what comes from an environment variable may be secret, whatever it is.
func isLiteral(body hcl.Body, name string) bool {
	if body == nil {
		return false
	}
	content, _, _ := body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: name}}})
	if content == nil || content.Attributes[name] == nil {
		return false
	}
	_, diags := content.Attributes[name].Expr.Value(nil)
	return !diags.HasErrors()
}

// differing says which settings differ, and how.
func differing(before, now map[string]string) string {
	names := maps.Clone(before)
	maps.Copy(names, now)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, is := before[name], now[name]
		switch {
		case was == is:
		case strings.HasPrefix(was, hiddenSetting) || strings.HasPrefix(is, hiddenSetting):
			out = append(out, name+" is not what it was")
		case was == "":
			out = append(out, fmt.Sprintf("%s is %s, and was not set", name, is))
		case is == "":
			out = append(out, fmt.Sprintf("%s was %s, and is not set", name, was))
		default:
			out = append(out, fmt.Sprintf("%s is %s, and was %s", name, is, was))
		}
	}
	return strings.Join(out, "; ")
}

// recall wants a worker to be the place that it was when it was seen last, by this host or an earlier one, or one on which the records have nothing. One that is not is left alone, and so
// is what is recorded of it, until its operator says what shall be. Keep notes the settings that it has now: to be called once its incarnations are noted.
func (h *Host) recall(ctx context.Context, w *worker, conn sdk.Worker, s sdk.Status) (keep func(context.Context), err error) {
	p := h.plugin(w.plugin)
	if p == nil { // it is being taken out
		return nil, sdk.NewUnavailable(nil, "plugin %q is not in the configuration", w.plugin)
	}
	now := p.settingsOf(w.name)
	before, err := h.lastSettings(ctx, w.name)
	if err != nil {
		return nil, err
	}
	if maps.Equal(before, now) {
		w.setElsewhere(false)
		return func(context.Context) {}, nil
	}
	if before != nil && !s.Has(sdk.FeatureVolatile) { // what is there, and ends with its plugin, has ended
		err := h.samePlace(ctx, w, conn, s)
		if elsewhere := (*elsewhereError)(nil); errors.As(err, &elsewhere) {
			w.setStatus(s)
			w.setElsewhere(true)
			err = changedError(err, w.name, differing(before, now))
		}
		if err != nil {
			return nil, err
		}
	}
	w.setElsewhere(false)
	return func(ctx context.Context) { h.keepSettings(ctx, w, now) }, nil
}

// changedError is why a worker is not used that is another place than what is recorded of it, since its settings have changed.
func changedError(err error, worker, changed string) error {
	return unusedError{fmt.Errorf("%w. They have changed since it was seen last: %s. %s", err, changed, atStart(worker))}
}

// atStart is what to do where a worker is at another place than the one that an earlier host knew.
func atStart(worker string) string {
	return fmt.Sprintf("Put them back, and reload; or give up what is at the old place with \"slipway workers retire %[1]s\", and put the new one to work with \"slipway workers uncordon %[1]s\"", worker)
}

// keepSettings keeps the settings with which a worker was seen. It takes of the reserve on a full disk: with older
// ones the worker would be in doubt as soon as it is away.
func (h *Host) keepSettings(ctx context.Context, w *worker, now map[string]string) {
	text, err := json.Marshal(now)
	if err == nil {
		err = h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
			row, err := tx.Worker(w.name)
			if ignoreNotFound(err) != nil {
				return err
			}
			row.ID, row.Settings = w.name, string(text)
			return tx.PutWorker(row)
		})
	}
	if err != nil && ctx.Err() == nil {
		h.log.Warn("the settings of a worker could not be kept", "worker", w.name, "error", err)
	}
}

// setElsewhere notes whether the worker's name leads to another place than what is recorded of it. While it does nothing there is given up for being away for long: it goes on where it
// was. The time for that begins anew afterwards, for whoever waits for the worker already, too.
func (w *worker) setElsewhere(is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.elsewhere && !is && w.conn == nil {
		w.since = time.Now()
		close(w.up) // everyone who waits shall look again
		w.up = make(chan struct{})
	}
	w.elsewhere, w.doubt = is, ""
	w.givenUp = w.givenUp && is
}

// giveUp notes that the operator retires the worker, who may know by now that its name leads elsewhere: then nothing that is recorded of it is waited for any more. One who had retired
// it before wanted its artifacts to be copied.
func (w *worker) giveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.givenUp = w.elsewhere
}

func (w *worker) isGivenUp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.givenUp
}

func (w *worker) isElsewhere() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.elsewhere
}
