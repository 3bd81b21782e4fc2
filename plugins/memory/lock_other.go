//go:build !unix

package memory

import "errors"

func lock(string) (unlock func() error, err error) {
	return nil, errors.New("worlds need a unix system")
}
