//go:build !unix

package host

// syncDir does nothing where a directory cannot be synced: names get to the disk when the system writes them.
func syncDir(string) error { return nil }
