// Package store keeps the rows of one installation (its containers, processes,
// volumes, artifacts and runs) in an SQLite database in the state directory.
//
// The host is the only writer, and a lock on the directory holds it to that.
// A row in a transitional state is the host's intent: the host writes the row,
// token included, before it calls a worker, and what came of it afterwards. So
// this package is typed rows in transactions and nothing more. Which states
// there are, which may follow which, and what a row that refers to a missing
// one means is the host's business; there are no foreign keys.
//
// # Durability
//
// What [Store.Update] has returned nil for survives a kill of this process
// ([KillSafe]) or a loss of power too ([PowerSafe]). Updates that wait at the
// same time share one commit, so many small ones side by side cost little more
// than one.
//
// # Files
//
//	slipway.db, -wal, -shm   the database, 0600
//	lock                     held by the host that runs; says its pid
//	installation             the id again, so that a lost database is noticed
//	reserve                  disk space given up when the disk is full
//
// This package imports nothing of Slipway.
package store
