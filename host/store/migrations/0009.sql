-- What the steps of a run have come to, by their owners: until the run's own result tells it of all of them.
CREATE TABLE steps (
	id     TEXT PRIMARY KEY NOT NULL,
	result BLOB
) WITHOUT ROWID;
