// Package proto holds the published wire contract, slipway/runtime/v1alpha1/*.proto, for authors in any language. There is no Go
// code here: what is generated from it is sdk/internal/pb, and Go authors use package sdk instead.
//
// After a change run go generate in this folder; "go run . -check" in generate/ says whether that was done.
package proto

//go:generate sh -c "cd generate && go run ."
