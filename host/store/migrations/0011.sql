-- A process's timeout is held by whoever has the state directory open, also when no run waits for it. Nanoseconds each; 0: it has none.
ALTER TABLE processes ADD COLUMN timeout INTEGER NOT NULL DEFAULT 0;
ALTER TABLE processes ADD COLUMN deadline INTEGER NOT NULL DEFAULT 0;
-- 1: it was told to end since its timeout had passed.
ALTER TABLE processes ADD COLUMN timed_out INTEGER NOT NULL DEFAULT 0;
