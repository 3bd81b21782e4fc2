// Package wire runs a plugin's program and speaks to it as a client in any language could: by the published handshake, and with messages that are
// written as JSON and known by name. Nothing of package rpc stands between, which would send only what is right and forgive what is not.
//
// Here are a [Process] and a [Conn] to it. What a plugin must do is for the cases of package conformance to say, and how one can be
// wrong for package mutant.
package wire
