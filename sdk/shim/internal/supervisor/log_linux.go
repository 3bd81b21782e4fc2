package supervisor

import "os"

// maxLog bounds the log, which lies on the scratch volume where the runtime keeps none.
const maxLog = 1 << 20

// bounded keeps the beginning, which tells most. A slog.Handler writes one line at a time.
type bounded struct {
	f    *os.File
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		b.left = 0
		return len(p), nil
	}
	return b.f.Write(p)
}
