package stream

import "errors"

// errHeld is why a directory cannot be held: somebody else holds it, or it is another one by now.
var errHeld = errors.New("is held by another process")
