package api

import (
	"context"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/slipway-run/slipway/host"
)

// metrics counts what a server does and tells how its host stands.
type metrics struct {
	s        *Server
	registry *prometheus.Registry

	calls   *prometheus.CounterVec
	latency *prometheus.HistogramVec
	runs    *prometheus.CounterVec
	steps   *prometheus.CounterVec
	phases  *prometheus.HistogramVec

	workers, owed, owedSince, waiting, turns, longest, streamed, plugins, restarts, underWay, draining, build *prometheus.Desc

	unended, full, free, reserve *prometheus.Desc
}

func newMetrics(s *Server) *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("slipway_"+name, help, labels, nil)
	}
	long := []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 300, 1800, 7200}
	m := &metrics{s: s, registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "slipway_api_calls_total", Help: "Calls that have ended."}, []string{"procedure", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "slipway_api_call_seconds", Help: "How long unary calls took.", Buckets: long},
			[]string{"procedure"}),
		runs:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "slipway_runs_total", Help: "Runs that have ended, by whether all steps succeeded."}, []string{"state"}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "slipway_steps_total", Help: "Steps that have ended, by how, and attempts at them that were lost and made again."}, []string{"state"}),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "slipway_step_seconds", Help: "How long each of them spent in each phase: queue, stream, run.",
			Buckets: long}, []string{"phase"}),
		workers: desc("workers", "Workers, by plugin, health (away ones have the health away) and what placement makes of them: only running ones take new work.",
			"plugin", "health", "state"),
		owed:      desc("worker_owed", "Things that are still to be destroyed on a worker, by kind. Workers that owe nothing are left out.", "worker", "kind"),
		owedSince: desc("worker_owed_seconds", "Since when the oldest of them is, as an age.", "worker"),
		waiting:   desc("waiting", "Steps and containers that wait for a place on a worker, by team.", "team"),
		turns:     desc("waiting_turns", "Steps that wait since as many go side by side as may, of their run or at all, by team.", "team"),
		longest:   desc("waiting_longest_seconds", "How long the first has waited for a place."),
		streamed:  desc("streamed_bytes_total", "Bytes that went to workers, as they were sent, by encoding, or direct from worker to worker.", "via"),
		plugins:   desc("plugin_up", "1 while a plugin runs, else 0.", "plugin", "state"),
		restarts:  desc("plugin_restarts_total", "How often a plugin was started again.", "plugin"),
		underWay:  desc("work_under_way", "Runs, processes and uploads under way through this server, and clients that watch them."),
		draining:  desc("draining", "1 once the server takes no new work."),
		build:     desc("build_info", "1, with the version of the program.", "version"),
		unended:   desc("runs", "Runs that have not ended: running ones, and stopped ones, which nobody drives until they are run again with their ids.", "state"),
		full:      desc("store_full", "1 while nothing new is taken since the disk of the state directory is full, else 0."),
		free:      desc("store_free_bytes", "Room on the disk of the state directory. Left out where that cannot be told."),
		reserve:   desc("store_reserve_bytes", "What the state directory keeps of it for what is to be destroyed on a full disk; 0 while that is used up."),
	}
	m.registry.MustRegister(m, m.calls, m.latency, m.runs, m.steps, m.phases, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Describe tells what Collect gives.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.workers, m.owed, m.owedSince, m.waiting, m.turns, m.longest, m.streamed, m.plugins, m.restarts, m.underWay, m.draining, m.build,
		m.unended, m.full, m.free, m.reserve} {
		to <- d
	}
}

// Collect tells how the host stands now.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	type place struct{ plugin, health, state string }
	workers := make(map[place]int)
	for _, w := range m.s.h.Workers() {
		health := w.Status.Health.String()
		if !w.Up {
			health = "away"
		}
		workers[place{w.Plugin, health, string(w.State)}]++
	}
	for at, n := range workers {
		gauge(m.workers, float64(n), at.plugin, at.health, at.state)
	}
	for worker, o := range m.s.h.Owed() {
		gauge(m.owed, float64(o.Containers), worker, "container")
		gauge(m.owed, float64(o.Volumes), worker, "volume")
		gauge(m.owedSince, time.Since(o.Since).Seconds(), worker)
	}
	figures := m.s.h.Figures()
	for team, n := range figures.Waiting {
		gauge(m.waiting, float64(n), team)
	}
	for team, n := range figures.Turns {
		gauge(m.turns, float64(n), team)
	}
	gauge(m.longest, figures.Longest.Seconds())
	for state, n := range figures.Runs {
		gauge(m.unended, float64(n), state)
	}
	room, full := m.s.h.Room(m.s.ctx), 0.0
	if room.Full != nil {
		full = 1
	}
	gauge(m.full, full)
	if room.Free >= 0 {
		gauge(m.free, float64(room.Free))
	}
	gauge(m.reserve, float64(room.Reserve))
	for via, n := range figures.Streamed {
		count(m.streamed, float64(n), via)
	}
	for _, p := range m.s.h.Plugins() {
		up := 0.0
		if p.State == "ready" || p.State == "degraded" {
			up = 1
		}
		gauge(m.plugins, up, p.Name, string(p.State))
		count(m.restarts, float64(p.Restarts), p.Name)
	}
	m.s.mu.Lock()
	busy, drain := m.s.busy, 0.0
	if m.s.drain {
		drain = 1
	}
	m.s.mu.Unlock()
	gauge(m.underWay, float64(busy))
	gauge(m.draining, drain)
	gauge(m.build, 1, m.s.opts.Version)
}

// ended counts a run.
func (m *metrics) ended(res *host.RunResult, err error) {
	if res == nil || res.Recorded {
		return
	}
	state := "succeeded"
	if err != nil || !res.Succeeded() {
		state = "failed"
	}
	m.runs.WithLabelValues(state).Inc()
}

// told counts a step as soon as its end is told, and an attempt at it that was lost and is made again. What is told while the server closes has not ended: the next one goes on with it.
func (m *metrics) told(e host.Event) {
	if e.Result == nil || e.Repeated || m.s.ctx.Err() != nil {
		return
	}
	m.steps.WithLabelValues(string(e.Result.State)).Inc()
	for phase, took := range map[string]time.Duration{"queue": e.Result.Queue, "stream": e.Result.Stream, "run": e.Result.Run} {
		if took > 0 {
			m.phases.WithLabelValues(phase).Observe(took.Seconds())
		}
	}
}

// WrapUnary counts a call.
func (m *metrics) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		began := time.Now()
		out, err := next(ctx, req)
		m.latency.WithLabelValues(short(req.Spec().Procedure)).Observe(time.Since(began).Seconds())
		m.called(req.Spec().Procedure, err)
		return out, err
	}
}

// WrapStreamingClient is for clients, of which a server has none.
func (m *metrics) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler counts a stream.
func (m *metrics) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		err := next(ctx, conn)
		m.called(conn.Spec().Procedure, err)
		return err
	}
}

func (m *metrics) called(procedure string, err error) {
	word := "ok"
	if err != nil {
		word = connect.CodeOf(err).String()
	}
	m.calls.WithLabelValues(short(procedure), word).Inc()
}

// short is a procedure without its package.
func short(procedure string) string {
	return procedure[strings.LastIndexByte(procedure, '.')+1:]
}
