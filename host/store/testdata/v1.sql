-- What a host wrote with version 1 of the schema. Never edited: later versions must be able to read it.
INSERT INTO installation VALUES ('2v6l3kd4jpyq7zs5a0c9e8r1mn');
INSERT INTO containers VALUES ('01j0c', 'linux-1', 'run/01j0r/build', 'main', 't0', 'created', '{"dir":"/w"}', '', 1700000000000000001, 1700000000000000002);
INSERT INTO processes VALUES ('01j0p', '01j0c', 't1', 'exited', '{"path":"sh"}', 4096, 12, '{"code":3}', 'exited', 1700000000000000003, 1700000000000000004);
INSERT INTO volumes VALUES ('01j0v', 'linux-1', 't2', 'sealed', '01j0c', '01j0a', '01j0u', '/w/out', 'output', 77, 1700000000000000005);
INSERT INTO artifacts VALUES ('01j0a', 'run/01j0r/out', 'run/01j0r', 1700000000000000006, 1700043200000000006);
INSERT INTO runs VALUES ('01j0r', '{"steps":[]}', 'running', 1700000000000000007, 0);
