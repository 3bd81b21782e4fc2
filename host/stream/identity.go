package stream

import "os"

// Identity tells a directory from all others that may be in its place: it stays when the directory is renamed, and when what is in it
// changes. Empty: this system cannot tell. [ReplaceDir] puts the directory in place that it lets its caller fill.
func Identity(dir string) (string, error) {
	id, err := identity(dir)
	if err != nil {
		return "", &os.PathError{Op: "identify", Path: dir, Err: err}
	}
	return id, nil
}
