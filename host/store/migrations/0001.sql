CREATE TABLE installation (
	id TEXT NOT NULL
);

CREATE TABLE containers (
	id         TEXT PRIMARY KEY NOT NULL,
	worker     TEXT NOT NULL,
	owner      TEXT NOT NULL,
	team       TEXT NOT NULL,
	token      TEXT NOT NULL,
	state      TEXT NOT NULL,
	spec       BLOB,
	reason     TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	updated_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX containers_owner ON containers (owner) WHERE owner <> '';
CREATE INDEX containers_worker ON containers (worker);
CREATE INDEX containers_team ON containers (team);
CREATE INDEX containers_state ON containers (state);

CREATE TABLE processes (
	id          TEXT PRIMARY KEY NOT NULL,
	container   TEXT NOT NULL,
	token       TEXT NOT NULL,
	state       TEXT NOT NULL,
	spec        BLOB,
	position    INTEGER NOT NULL,
	stdin_taken INTEGER NOT NULL,
	"exit"      BLOB,
	reason      TEXT NOT NULL,
	started_at  INTEGER NOT NULL,
	ended_at    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX processes_container ON processes (container);
CREATE INDEX processes_state ON processes (state);

CREATE TABLE volumes (
	id         TEXT PRIMARY KEY NOT NULL,
	worker     TEXT NOT NULL,
	token      TEXT NOT NULL,
	state      TEXT NOT NULL,
	container  TEXT NOT NULL,
	artifact   TEXT NOT NULL,
	parent     TEXT NOT NULL,
	path       TEXT NOT NULL,
	role       TEXT NOT NULL,
	bytes      INTEGER NOT NULL,
	created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX volumes_worker ON volumes (worker);
CREATE INDEX volumes_state ON volumes (state);
CREATE INDEX volumes_role ON volumes (role);
CREATE INDEX volumes_container ON volumes (container) WHERE container <> '';
CREATE INDEX volumes_artifact ON volumes (artifact) WHERE artifact <> '';
CREATE INDEX volumes_parent ON volumes (parent) WHERE parent <> '';

CREATE TABLE artifacts (
	id         TEXT PRIMARY KEY NOT NULL,
	name       TEXT NOT NULL,
	owner      TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX artifacts_name ON artifacts (name) WHERE name <> '';
CREATE INDEX artifacts_owner ON artifacts (owner);
CREATE INDEX artifacts_expires ON artifacts (expires_at) WHERE expires_at <> 0;

CREATE TABLE runs (
	id         TEXT PRIMARY KEY NOT NULL,
	job        BLOB,
	state      TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	ended_at   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_state ON runs (state);
CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at <> 0;

CREATE TABLE workers (
	id                    TEXT PRIMARY KEY NOT NULL,
	container_incarnation TEXT NOT NULL,
	volume_incarnation    TEXT NOT NULL
) WITHOUT ROWID;
