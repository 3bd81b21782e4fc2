-- How far output is stored is told by the spool, which alone knows.
ALTER TABLE processes DROP COLUMN position;
ALTER TABLE processes DROP COLUMN stdin_taken;
