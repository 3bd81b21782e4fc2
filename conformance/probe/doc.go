// Command probe is the program that the conformance suite brings into containers, so that an image need not have any. It imports
// the standard library only and is built without cgo for linux/amd64, linux/arm64 and wasip1/wasm; package conformance carries its
// source and builds it where it is needed.
//
// The first argument says what to do, the others how. "seq" does several things in one process, separated by arguments ";", and "inner"
// the same with ",". What cannot be done exits with [codeFailed] and says why on stderr; what this build can never do, such as signals under WASI, with
// [codeCannot].
package main
