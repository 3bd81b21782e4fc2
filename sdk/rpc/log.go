package rpc

import (
	"context"
	"io"
	"log/slog"
	"strings"
)

// Keys of hclog's JSON lines, which is what hosts read from a plugin's stderr. Their values are always strings.
const (
	logTime    = "@timestamp"
	logLevel   = "@level"
	logMessage = "@message"
	logModule  = "@module"

	logTimeFormat = "2006-01-02T15:04:05.000000Z07:00"
	levelTrace    = slog.LevelDebug - 4
)

// newLogger writes a line of JSON for each record. The host decides what it shows, so everything is written.
func newLogger(w io.Writer, module string) *slog.Logger {
	h := slog.NewJSONHandler(w, &slog.HandlerOptions{Level: levelTrace, ReplaceAttr: hclogKeys})
	return slog.New(&logHandler{next: h.WithAttrs([]slog.Attr{slog.String(logModule, module)})})
}

// hclogKeys renames slog's own attributes. logHandler has seen to it that no other has their keys.
func hclogKeys(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		return slog.String(logTime, a.Value.Time().Format(logTimeFormat))
	case slog.LevelKey:
		level, _ := a.Value.Any().(slog.Level)
		return slog.String(logLevel, levelName(level))
	case slog.MessageKey:
		return slog.String(logMessage, a.Value.String())
	}
	return a
}

func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelDebug:
		return "trace"
	case l < slog.LevelInfo:
		return "debug"
	case l < slog.LevelWarn:
		return "info"
	case l < slog.LevelError:
		return "warn"
	}
	return "error"
}

// logHandler keeps the plugin's own attributes off the keys of the line: a reader may take those for granted.
type logHandler struct {
	next    slog.Handler
	grouped bool
}

func (h *logHandler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	if h.grouped {
		return h.next.Handle(ctx, r)
	}
	clean := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(ownKey(a))
		return true
	})
	return h.next.Handle(ctx, clean)
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if h.grouped {
		return &logHandler{next: h.next.WithAttrs(attrs), grouped: true}
	}
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = ownKey(a)
	}
	return &logHandler{next: h.next.WithAttrs(clean)}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{next: h.next.WithGroup(name), grouped: h.grouped || name != ""}
}

// ownKey moves an attribute with a key of the line out of the way, in groups without a name too, for those are inlined.
func ownKey(a slog.Attr) slog.Attr {
	a.Value = a.Value.Resolve()
	if a.Value.Kind() == slog.KindGroup && a.Key == "" {
		group := a.Value.Group()
		clean := make([]slog.Attr, len(group))
		for i, inner := range group {
			clean[i] = ownKey(inner)
		}
		return slog.Attr{Value: slog.GroupValue(clean...)}
	}
	if a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey || strings.HasPrefix(a.Key, "@") {
		a.Key = "_" + a.Key
	}
	return a
}
