-- Since when a volume is to be destroyed, which operators are told; 0: it is not, or has been since before this was kept.
ALTER TABLE volumes ADD COLUMN doomed_at INTEGER NOT NULL DEFAULT 0;
