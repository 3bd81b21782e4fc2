// Package rpc carries the contract of package sdk over gRPC.
//
// A plugin's main calls [Serve] and nothing else; a long-living server that is no child of a host calls [ServeOn]. A host
// calls [Dial] and gets an [sdk.Runtime] whose workers behave as those on the other side: same values, same errors, same
// order of callbacks. Package rpctest makes such a pair inside one process.
//
// What Serve does for a plugin's code: it puts [sdk.Checked] before it, so that ids, tokens, labels, specs, paths and positions are right, and no call begins whose
// context has ended; a panic is Internal and the plugin lives on; its readers and writers of streams fail once the call's context ends; a
// follower's acknowledgements and stdin are checked. What there is, and what a worker can do, are its own to judge.
//
// The wire format is what sdk/proto says; the generated code is sdk/internal/pb and never shows in this package's API.
// What decides anything (placement, retries, supervision, starting processes) does not belong here.
package rpc
