package host

import (
	"fmt"
	"reflect"

	"github.com/slipway-run/slipway/host/config"
)

// differences tells which plugins and workers are others now.
func (r *reload) differences(next *config.Config, restarted map[string]string) (out []Change) {
	for _, c := range next.Plugins {
		before, was := pluginOf(r.old, c.Name)
		why, again := restarted[c.Name]
		change := Change{What: worded("plugin", c.Name)}
		switch {
		case r.frozen[c.Name] || r.failed[c.Name]:
			continue
		case !was:
			change.Kind = ChangeAdded
		case again:
			change.Kind, change.Why = ChangeRestarted, why
		case !sameProgram(before, c) || r.old.Dir() != next.Dir() || !sameBody(before.Body, c.Body, r.h.plugin(c.Name).proc.State().Info.PluginSchema):
			change.Kind = ChangeChanged
		default:
			continue
		}
		out = append(out, change)
	}
	for _, c := range r.old.Plugins {
		if _, is := pluginOf(next, c.Name); !is {
			out = append(out, Change{What: worded("plugin", c.Name), Kind: ChangeRemoved})
		}
	}
	for _, w := range next.Workers {
		before, was := workerOf(r.old, w.Name)
		change := Change{What: worded("worker", w.Name), Kind: ChangeChanged}
		switch {
		case !was:
			change.Kind = ChangeAdded
		case !reflect.DeepEqual(blockOf(before), blockOf(w)):
		case !sameBody(before.Body, w.Body, r.h.plugin(w.Plugin).proc.State().Info.WorkerSchema) && !r.frozen[w.Plugin] && !r.failed[w.Plugin]:
		default:
			continue
		}
		out = append(out, change)
	}
	for _, w := range r.old.Workers {
		_, is := workerOf(next, w.Name)
		_, wanted := workerOf(r.wanted, w.Name)
		switch {
		case !is:
			out = append(out, Change{What: worded("worker", w.Name), Kind: ChangeRemoved})
		case !wanted && !r.kept[w.Name]:
			out = append(out, stays(w))
		}
	}
	for _, w := range r.wanted.Workers {
		if _, is := workerOf(next, w.Name); !is {
			out = append(out, stays(w))
		}
	}
	return out
}

// stays is told of a worker that could only be added or go with a change of its plugin.
func stays(w config.Worker) Change {
	return Change{What: worded("worker", w.Name), Kind: ChangeRefused, Why: fmt.Sprintf("plugin %q stays as it is", w.Plugin)}
}

// setting is one that is in no block of a plugin or a worker, under its name in the file.
type setting struct {
	name  string
	value any
}

func settingsOf(c *config.Config) []setting {
	p, t, r, a := c.Placement, c.Timing, c.Reaping, c.Artifacts
	return []setting{
		{"placement.build", p.Build}, {"placement.no_input", p.NoInput}, {"placement.check", p.Check},
		{"placement.max_containers", p.Limits.Containers}, {"placement.max_tasks", p.Limits.Tasks}, {"placement.max_volumes", p.Limits.Volumes},
		{"placement.wait_limit", p.WaitLimit}, {"placement.max_steps", p.Steps}, {"placement.max_passed", p.MaxPassed},
		{"timing.missing_grace", t.MissingGrace}, {"timing.worker_gone", t.WorkerGone}, {"timing.stalled", t.Stalled}, {"timing.answer", t.Answer}, {"timing.prune", t.Prune},
		{"reaping.every", r.Every}, {"reaping.failed", r.Failed}, {"reaping.abandoned", r.Abandoned}, {"reaping.records", r.Records},
		{"reaping.keep_failed", r.KeepFailed}, {"reaping.output_size", r.OutputSize},
		{"artifacts.quota", a.Quota}, {"artifacts.upload_size", a.Upload}, {"artifacts.ttl", a.TTL}, {"artifacts.cache_ttl", a.CacheTTL}, {"artifacts.unpack_size", a.UnpackSize},
		{"artifacts.unpack_entries", a.UnpackEntries}, {"artifacts.stream_size", a.StreamSize}, {"artifacts.stream_unpacked_size", a.StreamUnpackedSize},
	}
}

// settingsChanged tells which settings hold now that did not before.
func settingsChanged(old, next *config.Config) []Change {
	return settingsDiffer(old, next, Change{Kind: ChangeChanged})
}

// settingsLater tells which settings are wanted and cannot hold while the host runs.
func settingsLater(next, wanted *config.Config) []Change {
	return settingsDiffer(next, wanted, Change{Kind: ChangeLater, Why: "it is given to what is open already"})
}

func settingsDiffer(a, b *config.Config, as Change) (out []Change) {
	others := settingsOf(b)
	for i, s := range settingsOf(a) {
		if !reflect.DeepEqual(s.value, others[i].value) {
			as.What = s.name
			out = append(out, as)
		}
	}
	return out
}
