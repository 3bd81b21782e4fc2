-- With which settings a worker was seen last: with others its name may lead to another place.
ALTER TABLE workers ADD COLUMN settings TEXT NOT NULL DEFAULT '';
