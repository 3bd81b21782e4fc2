// Package claim is the volume half of the Garden plugin: what the contract asks of volumes, made of a Baggageclaim server's calls.
//
// The server has neither tokens nor seals, no locks, follows symbolic links as root, and says of most failures only that there was one. Tokens
// and states are properties of its volumes; locks are in this process; archives are read as they pass, and paths looked at before they are
// used; and what went wrong is found out by trying.
//
// It knows nothing of Garden, nor of the plugin's settings. A Store is one server; it dials only when it is asked something.
package claim
