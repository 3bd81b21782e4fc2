package store

// Worker is a row of a worker: which stores were behind it when it was last seen.
type Worker struct {
	ID                   string // its name
	ContainerIncarnation string // empty: never known
	VolumeIncarnation    string // empty: never known
}

func (w *Worker) fields() []any { return []any{&w.ID, &w.ContainerIncarnation, &w.VolumeIncarnation} }

func (tx *Tx) PutWorker(w Worker) error {
	return write(tx, tx.schema.workers, tx.schema.workers.put, w)
}

func (tx *Tx) Worker(id string) (Worker, error) { return get(tx, tx.schema.workers, byID, id) }
