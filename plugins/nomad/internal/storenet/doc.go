// Package storenet is how one talks to the store of a node's volumes: the plugin to each, and one to another.
//
// A store listens on the network, where anybody may connect. So whoever connects first does TLS 1.3 with it, and takes it for the right one by the
// fingerprint of its certificate alone, which the store makes anew at each start. Then it says in one line what it wants and what secret lets it:
// the store's own, or a ticket's. The line goes to nobody but the store that was meant, so a secret sent is as good a proof as a certificate made of it
// would be, and the store can answer in words why it refuses. Fingerprint and secret are in a file beside the store, its [Hello], which is read
// by a command in its task: who may run commands in the store's allocation may talk to it, and no secret stands in a job.
//
// What follows the line is one of three kinds: the contract of package sdk/rpc, for the volume half of a worker; a session, for what that has no words
// for, which is to hold volumes and to ask containers while one is sealed; or a peer's, which is one StreamIn and nothing else.
//
// [Store] is the plugin's side. Where no address of the store can be reached it goes through a command in the store's task, which is slow.
package storenet
