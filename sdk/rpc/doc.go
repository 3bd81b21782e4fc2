// Package rpc carries the contract of package sdk over gRPC.
//
// A plugin's main calls [Serve] and nothing else; a long-living server that is no child of a host calls [ServeOn]. A host
// calls [Dial] and gets an [sdk.Runtime] whose workers behave as those on the other side: same values, same errors, same
// order of callbacks. Package rpctest makes such a pair inside one process.
//
// What Serve does for a plugin's code: ids, tokens, labels and specs are validated before it sees them (Validate of each spec,
// CheckID of each id, Validate of signals); features that its types do not implement are stripped from its Status, and optional calls that they
// do not implement are Unsupported; a panic is Internal and the plugin lives on; its readers and writers of streams fail once the
// call's context ends; a follower's acknowledgements, stdin and positions are checked. Paths inside volumes, filters and what a
// worker can do are its own to judge.
//
// The wire format is what sdk/proto says; the generated code is sdk/internal/pb and never shows in this package's API.
// What decides anything (placement, retries, supervision, starting processes) does not belong here.
package rpc
