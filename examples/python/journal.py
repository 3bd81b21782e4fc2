"""A process's output on disk, with positions (rule 5). The keeper writes it; where the keeper is gone, the plugin reads what is left.

It is a row of files, each named after the position that it begins at, of records: a header (position, stream, nanoseconds, length) and
the bytes. Nothing is synced: it outlives processes, not a loss of power.
"""

import errno
import os
import struct

HEADER = struct.Struct("<qBqI")


class Journal:
    def __init__(self, record, process, spill=0):
        """record is a descriptor of the directory that holds the process's own, and stays the caller's."""
        self.record, self.process, self.spill = record, process, spill
        fd = os.open(process, os.O_RDONLY | os.O_DIRECTORY, dir_fd=record)
        self.starts = sorted(int(n[8:]) for n in os.listdir(fd) if n.startswith("journal."))
        os.close(fd)
        self.writer, self.written = None, 0
        self.acked = self._load_acked()
        self.end = max([self.acked] + [r[0] + len(r[3]) for r in self._records(self.starts[-1])] if self.starts else [self.acked])
        self.oldest = max(self.acked, self.starts[0]) if self.starts else self.end  # the first position that is still kept

    def _load_acked(self):
        try:
            with open(self._open("acked", os.O_RDONLY)) as f:
                return int(f.read() or 0)
        except FileNotFoundError:
            return 0

    def _open(self, name, flags):
        return os.open(f"{self.process}/{name}", flags | os.O_CLOEXEC, 0o600, dir_fd=self.record)

    def append(self, stream, data, time):
        if self.writer is None or self.written > max(self.spill // 8, 64 << 10):
            self.close()
            self.writer, self.written = open(self._open(f"journal.{self.end}", os.O_WRONLY | os.O_CREAT), "wb", buffering=0), 0
            self.starts.append(self.end)
        record = HEADER.pack(self.end, stream, time, len(data)) + data
        try:
            if self.writer.write(record) < len(record):
                raise OSError(errno.ENOSPC, "no room for the journal")
        except OSError:
            self.writer.truncate(self.written)  # nothing of it counts
            self.writer.seek(self.written)
            raise
        self.written += len(record)
        self.end += len(data)

    def room(self):
        return self.spill - (self.end - max(self.oldest, self.acked))

    def acknowledge(self, position):
        if position > self.acked:
            self.acked = position
            fd = self._open("acked", os.O_WRONLY | os.O_CREAT)
            os.pwrite(fd, b"%020d" % position, 0)
            os.close(fd)
            self.drop(position)

    def drop(self, position):
        """Forgets what is before a position. Files go whole, positions to the byte."""
        self.oldest = max(self.oldest, position)
        while self.starts and (self.starts[1] if len(self.starts) > 1 else self.end) <= self.oldest:
            if len(self.starts) == 1 and self.writer is not None:
                self.close()
            os.unlink(f"{self.process}/journal.{self.starts.pop(0)}", dir_fd=self.record)

    def _records(self, start):
        """The records of one file, as far as they are whole."""
        with open(self._open(f"journal.{start}", os.O_RDONLY), "rb") as f:
            while len(head := f.read(HEADER.size)) == HEADER.size:
                position, stream, time, size = HEADER.unpack(head)
                data = f.read(size)
                if len(data) < size:
                    return
                yield position, stream, time, data

    def read(self, position):
        """Yields (position, stream, time, bytes) from a position on, (position, 0, 0, end) for a gap, and None where nothing more is there
        at present: it may be asked on after that."""
        start, file = None, None
        try:
            while True:
                if position < self.oldest:
                    yield position, 0, 0, self.oldest
                    position = self.oldest
                if position >= self.end:
                    yield None
                    continue
                at = max(s for s in self.starts if s <= position)
                if at != start:
                    if file:
                        file.close()
                    start, file = at, open(self._open(f"journal.{at}", os.O_RDONLY), "rb")
                record, stream, time, size = HEADER.unpack(file.read(HEADER.size))
                data = file.read(size)
                if record + size > position:
                    yield position, stream, time, data[position - record :]
                    position = record + size
        finally:
            if file:
                file.close()

    def close(self):
        if self.writer is not None:
            self.writer.close()
            self.writer = None
