// Package gdn makes calls on a Garden server: with contexts, with bounded waits, and with errors of the contract. The messages themselves
// are made and read by the client library, code.cloudfoundry.org/garden/client/connection.
//
// Only those calls are here that guardian and Concourse's containerd backend both answer. Nothing relies on the ids of Garden's processes, nor
// on attaching to one: the shim in each container sees to what must happen exactly once.
package gdn
