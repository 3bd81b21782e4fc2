-- What was odd on a worker when a host that did not stay looked at it last: the next one that looks, a grace later, goes by it.
CREATE TABLE looks (
	id   TEXT PRIMARY KEY NOT NULL,
	at   INTEGER NOT NULL,
	seen BLOB
) WITHOUT ROWID;
