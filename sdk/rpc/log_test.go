package rpc

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
)

// TestLogLinesKeepTheirKeys gives attributes that would break a reader which takes the line's own keys for granted.
func TestLogLinesKeepTheirKeys(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(&out, "memory")
	hostile := []any{"msg", 1, "level", 2, "time", 3, "@message", 4, "@level", 5, "@timestamp", 6, "@module", 7,
		slog.Group("", slog.Int("msg", 8), slog.Int("@level", 9)), slog.Group("g", slog.Int("msg", 10))}
	for _, log := range []*slog.Logger{log, log.With(hostile...), log.WithGroup("g"), log.With("@module", 1).WithGroup("g").With(hostile...)} {
		for level, want := range map[slog.Level]string{slog.LevelDebug - 4: "trace", slog.LevelDebug: "debug", slog.LevelInfo: "info",
			slog.LevelWarn: "warn", slog.LevelError: "error", slog.LevelError + 4: "error"} {
			out.Reset()
			log.Log(t.Context(), level, "words", hostile...)
			var line map[string]any
			if err := json.Unmarshal(out.Bytes(), &line); err != nil {
				t.Fatalf("%v in %q", err, out.String())
			}
			if line["@message"] != "words" || line["@level"] != want || line["@module"] != "memory" {
				t.Errorf("got %q", out.String())
			}
			if _, ok := line["@timestamp"].(string); !ok {
				t.Errorf("no time in %q", out.String())
			}
			if key := repeated(t, out.Bytes()); key != "" {
				t.Errorf("%s is there twice: %q", key, out.String())
			}
		}
	}
}

// repeated gives a key of the line, not of the groups in it, that begins with "@" and occurs twice: which of the two a
// reader takes is anyone's guess.
func repeated(t *testing.T, line []byte) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(line))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		key, _ := token.(string)
		if strings.HasPrefix(key, "@") && seen[key] {
			return key
		}
		seen[key] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return ""
}
