//go:build linux

package nomadtest

import "time"

// Options are what an agent may have otherwise. The zero value is usable.
type Options struct {
	// ChrootEnv maps paths of this machine to paths in the chroot of exec tasks. Nil means what BusyboxRoot gives: a static busybox with its applets
	// in /bin, and root and nobody in /etc. Nomad makes hard links where it can, so that a task's root may change what is named here.
	ChrootEnv map[string]string

	MaxConnsPerClient int           // HTTP connections that one address may hold; 0: no limit (without this package it would be 100)
	GCMaxAllocs       int           // allocations on the node that make Nomad clear away ended ones; 0: Nomad's 50
	GCInterval        time.Duration // between looks for them; 0: Nomad's minute

	// Dev has the agent keep its state in memory. It is ready in two seconds then, but stopping it ends its tasks, and it is never started again:
	// Restart is an error, and what outlives Kill is lost to Nomad. Without it an agent needs 2 to 12 seconds, for Nomad draws when a node reports.
	Dev bool

	// Docker gives the agent a Docker daemon of its own and the driver for it, with Image and whatever ImportImage adds. Tasks may mount paths of
	// this machine. Privileged lets them be privileged as well.
	Docker, Privileged bool

	HostVolumes []string // names of host volumes that the node has; see Agent.HostVolume
	ACL         bool     // who calls needs a token: Client has the one that may do everything, and Token gives it
	TLS         *TLS     // for all that is said over the network; who calls needs a certificate. Nil: none

	// HCL is read after, and so over, the package's own configuration.
	HCL string
}
