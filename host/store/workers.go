package store

import "time"

// Worker is a row of a worker: which stores were behind it when it was last seen, and what its operator wants of it.
type Worker struct {
	ID                   string // its name
	ContainerIncarnation string // empty: never known
	VolumeIncarnation    string // empty: never known
	Orders               string // the state that an operator has put it in, such as "cordoned"; empty: none
	Reason               string // of the orders, for people
	OrderedAt            time.Time
	Settings             string // JSON: those with which it was seen last; empty: not known
}

func (w *Worker) fields() []any {
	return []any{&w.ID, &w.ContainerIncarnation, &w.VolumeIncarnation, &w.Orders, &w.Reason, (*stamp)(&w.OrderedAt), &w.Settings}
}

func (tx *Tx) PutWorker(w Worker) error {
	return write(tx, tx.schema.workers, w)
}

func (tx *Tx) Worker(id string) (Worker, error) { return get(tx, tx.schema.workers, byID, id) }

// Workers lists the workers that were ever seen or given orders, and are not forgotten.
func (tx *Tx) Workers() ([]Worker, error) { return list(tx, tx.schema.workers, where{}) }

func (tx *Tx) DeleteWorker(id string) error { return remove(tx, tx.schema.workers, id) }

// Look is a row of what was seen on a worker that nobody looks at all the time.
type Look struct {
	ID   string // the worker's name; one that no worker has stands for the host itself
	At   time.Time
	Seen []byte // JSON
}

func (l *Look) fields() []any { return []any{&l.ID, (*stamp)(&l.At), &l.Seen} }

func (tx *Tx) PutLook(l Look) error { return write(tx, tx.schema.looks, l) }

func (tx *Tx) Look(id string) (Look, error) { return get(tx, tx.schema.looks, byID, id) }

// Looks lists them all.
func (tx *Tx) Looks() ([]Look, error) { return list(tx, tx.schema.looks, where{}) }

func (tx *Tx) DeleteLook(id string) error { return remove(tx, tx.schema.looks, id) }
