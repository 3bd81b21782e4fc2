// Package proto holds the daemon's published interface, slipway/host/v1alpha1/*.proto, for clients in any language. There is no Go code
// here: Go programs use package api's Client.
//
// After a change run go generate in this folder; the generator lies with that of the plugins' contract.
package proto

//go:generate sh -c "cd ../../../sdk/proto/generate && go run ."
