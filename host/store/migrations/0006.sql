-- Records of what is over are kept for long: what is asked for often must not read past them.
DROP INDEX containers_worker;
CREATE INDEX containers_worker ON containers (worker, state);
DROP INDEX containers_state;
CREATE INDEX containers_state ON containers (state, updated_at);
DROP INDEX runs_state;
CREATE INDEX runs_state ON runs (state, ended_at);
DROP INDEX volumes_artifact;
CREATE INDEX volumes_artifact ON volumes (artifact, worker, state) WHERE artifact <> '';
DROP INDEX volumes_worker;
CREATE INDEX volumes_worker ON volumes (worker, state);
