package main

import (
	"time"

	"github.com/slipway-run/slipway/host/pool"
)

type jsonExplained struct {
	Step     string        `json:"step"`
	State    string        `json:"state"`            // placed, waiting, turn, asked
	Worker   string        `json:"worker,omitempty"` // that it has or would get
	Held     bool          `json:"held,omitempty"`   // its owner had the place already
	Scores   []jsonScore   `json:"scores,omitempty"` // of that worker
	At       *time.Time    `json:"at,omitempty"`     // when it was placed
	Waited   float64       `json:"waited_seconds"`
	Position int           `json:"position,omitempty"` // among those who wait, from 1
	Reserved string        `json:"reserved,omitempty"` // waiting: the worker that is reserved for it
	Until    *time.Time    `json:"reserved_until,omitempty"`
	InTheWay []jsonHolder  `json:"in_the_way,omitempty"` // waiting: who has, on that worker, of what there is too little
	Turn     int           `json:"turn,omitempty"`       // asked: the place that it would have among those who wait for their turn
	Before   []string      `json:"before,omitempty"`     // asked: the first of those who would be served before it
	Copies   []jsonCopy    `json:"copies,omitempty"`     // asked: what would have to be brought to the worker
	Error    string        `json:"error,omitempty"`      // why it would not be placed
	Workers  []jsonVerdict `json:"workers"`              // the best first; of a placed step, the others
}

type jsonVerdict struct {
	Worker string      `json:"worker"`
	Takes  string      `json:"takes"`  // yes, no, full
	Reason string      `json:"reason"` // one word, such as ok, tags, containers
	Detail string      `json:"detail"`
	Scores []jsonScore `json:"scores,omitempty"`
	// Of a full worker, of one that waits: what has its volumes.
	Holders []jsonHolder `json:"holders,omitempty"`
}

// jsonHolder is a container, an artifact, a cache, what is being destroyed, or, without any of these, what nobody owns.
type jsonHolder struct {
	Owner    string `json:"owner,omitempty"` // of a container
	Artifact string `json:"artifact,omitempty"`
	Cache    string `json:"cache,omitempty"`
	Going    bool   `json:"going,omitempty"`  // all that is being destroyed
	Others   bool   `json:"others,omitempty"` // all that other teams have

	Volumes   int         `json:"volumes,omitempty"`
	Claimed   int         `json:"claimed,omitempty"`   // volumes that a container is still to get
	Resources *jsonAmount `json:"resources,omitempty"` // that are promised to a container, of those that are too little
	Why       string      `json:"why,omitempty"`       // it stays
}

type jsonCopy struct {
	Name  string   `json:"name"`            // such as input.src
	Bytes int64    `json:"bytes,omitempty"` // 0: not known yet
	From  []string `json:"from,omitempty"`  // workers, "host", or the directory that -i names; none: whoever runs the job, or a step that has no worker yet
}

type jsonScore struct {
	Strategy string `json:"strategy"`
	Value    int64  `json:"value"`
}

func writeExplainedJSON(to *outlet, all []explained) error {
	out := make([]jsonExplained, 0, len(all))
	for _, e := range all {
		j := jsonExplained{Step: e.step, State: string(e.State), Worker: e.Worker, Held: e.Held, Scores: jsonScores(e.Scores),
			Waited: e.Waited.Seconds(), Position: e.Position, Reserved: e.Reserved, Workers: []jsonVerdict{},
			Until: known(e.ReservedUntil), InTheWay: jsonHolders(e.InTheWay), Turn: e.Turn, Before: e.Before}
		for _, c := range e.Copies {
			j.Copies = append(j.Copies, jsonCopy{c.Name, c.Bytes, c.From})
		}
		if !e.At.IsZero() {
			j.At = &e.At
		}
		if e.Err != nil {
			j.Error = e.Err.Error()
		}
		for _, v := range e.Workers {
			j.Workers = append(j.Workers, jsonVerdict{v.Worker, takes(v.Reason), string(v.Reason), v.Detail, jsonScores(v.Scores), jsonHolders(v.Holders)})
		}
		out = append(out, j)
	}
	return to.writeJSON(out)
}

func jsonHolders(all pool.Holders) (out []jsonHolder) {
	for _, o := range all {
		j := jsonHolder{Owner: o.Owner, Artifact: o.Artifact, Cache: o.Cache, Going: o.Going, Others: o.Others, Volumes: o.Volumes, Claimed: o.Claimed, Why: o.Why}
		if r := o.Resources; r != (pool.Resources{}) {
			j.Resources = &jsonAmount{CPUMillis: r.CPUMillis, MemoryBytes: r.MemoryBytes, DiskBytes: r.DiskBytes, PIDs: r.PIDs}
		}
		out = append(out, j)
	}
	return out
}

func jsonScores(all []pool.Score) []jsonScore {
	var out []jsonScore
	for _, s := range all {
		out = append(out, jsonScore{string(s.Strategy), s.Value})
	}
	return out
}
