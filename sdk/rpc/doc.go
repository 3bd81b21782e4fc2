// Package rpc carries the contract of package sdk over gRPC.
//
// A plugin's main calls [Serve] and nothing else; a long-living server that is no child of a host calls [ServeOn]. A host
// calls [Dial] and gets an [sdk.Runtime] whose workers behave as those on the other side: same values, same errors, same
// order of callbacks. Package rpctest makes such a pair inside one process.
//
// The wire format is what sdk/proto says; the generated code is sdk/internal/pb and never shows in this package's API.
// What decides anything (placement, retries, supervision, starting processes) does not belong here.
package rpc
