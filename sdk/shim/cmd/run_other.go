//go:build !linux

package main

import (
	"errors"
	"fmt"
)

func run(args []string) error {
	if len(args) == 1 && args[0] == "version" {
		fmt.Println("slipway-shim", version)
		return nil
	}
	return errors.New("this program keeps processes of Linux containers and runs nowhere else")
}
