package rpc

import "os"

// keepOutput remembers the process's stdout and stderr. The function that it gives puts them back, once go-plugin's Serve has
// replaced them by pipes: those end in a service that no host of ours asks, so that whatever the plugin prints would be lost,
// and 64 KiB of it would block the plugin for good. It must not be called before Serve listens: the first call that comes in
// is the sign of it. Closing the pipes lets go of whoever has got hold of one meanwhile.
func keepOutput() (restore func()) {
	stdout, stderr := os.Stdout, os.Stderr
	return func() {
		piped := []*os.File{os.Stdout, os.Stderr}
		os.Stdout, os.Stderr = stdout, stderr
		for _, f := range piped {
			if f != stdout && f != stderr {
				_ = f.Close() // nothing is lost by an error: nobody reads what is in it
			}
		}
	}
}
