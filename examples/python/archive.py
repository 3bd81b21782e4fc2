"""Tar archives: packing below a directory, and unpacking so that whatever an archive says, nothing outside changes (rule 9).

Names are bytes. Every path is walked part by part from an open directory, and no link is followed that the contract does not tell to
follow. The writer is the standard library's; its reader takes a damaged archive for a whole one, so there is one here that does not.
"""

import contextlib
import errno
import os
import stat
import tarfile

from errors import invalid, unsupported

CHUNK = 256 << 10


def damaged(message):
    return invalid("archive", f"the archive {message}")


def open_below(root, parts, make=False):
    """A new descriptor of a directory below root, made where missing if asked for. It fails on links as on other non-directories."""
    fd = os.dup(root)
    for part in parts:
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=fd)
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    return fd


# Packing.


def open_following(root, parts):
    """A new descriptor of a directory below root, for reading: links that lead there are followed, but never out of root."""
    at, left, links = [], list(parts), 0  # at is passed, and free of links
    fd = os.dup(root)
    try:
        while left:
            part = left.pop(0)
            if part in (b"", b"."):
                continue
            if part == b"..":
                if not at:
                    raise invalid("path", "a link in the path leaves the volume")
                at.pop()
                below = open_below(root, at)  # and not by "..", which is elsewhere once something is moved
            elif (target := _target(fd, part)) is None:
                at.append(part)
                below = open_below(fd, [part])
            else:
                links += 1
                if target.startswith(b"/") or links > 40:
                    raise invalid("path", "a link in the path leaves the volume, or is one of too many")
                left[:0] = target.split(b"/")
                continue
            os.close(fd)
            fd = below
        return os.dup(fd)
    finally:
        os.close(fd)


def _target(fd, name):
    """What a link leads to; None: it is no link."""
    try:
        return os.readlink(name, dir_fd=fd)
    except OSError as e:
        if e.errno != errno.EINVAL:
            raise


def pack(root, parts):
    """Yields the archive of what is at parts below root: of a directory what is in it, of anything else one entry."""
    parent = open_following(root, parts[:-1])
    try:
        links = {}
        if parts and not stat.S_ISDIR(_lstat(parent, parts[-1]).st_mode):
            yield from _entry(parent, parts[-1], parts[-1], links)
        else:
            top = open_below(parent, parts[-1:])
            try:
                for at, dirs, files, fd in os.fwalk(b".", dir_fd=top, onerror=_raise):
                    for name in sorted(dirs + files):
                        yield from _entry(fd, name, os.path.normpath(os.path.join(at, name)), links)
            finally:
                os.close(top)
    finally:
        os.close(parent)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _raise(error):
    raise error


def _lstat(fd, name):
    return os.stat(name, dir_fd=fd, follow_symlinks=False)


def _entry(fd, name, path, links):
    st = _lstat(fd, name)
    info = tarfile.TarInfo(os.fsdecode(path))
    info.mode, info.uid, info.gid = stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid
    info.mtime = max(0, st.st_mtime_ns // 10**9)
    if st.st_mtime_ns % 10**9 or st.st_mtime_ns < 0:
        sign, ns = ("-", -st.st_mtime_ns) if st.st_mtime_ns < 0 else ("", st.st_mtime_ns)
        info.pax_headers["mtime"] = f"{sign}{ns // 10**9}.{ns % 10**9:09}"
    if stat.S_ISDIR(st.st_mode):
        info.type, info.name = tarfile.DIRTYPE, info.name + "/"
    elif stat.S_ISLNK(st.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, os.fsdecode(os.readlink(name, dir_fd=fd))
    elif st.st_nlink > 1 and (st.st_dev, st.st_ino) in links:
        info.type, info.linkname = tarfile.LNKTYPE, links[st.st_dev, st.st_ino]
    elif stat.S_ISFIFO(st.st_mode):
        info.type = tarfile.FIFOTYPE
    elif stat.S_ISREG(st.st_mode):
        links[st.st_dev, st.st_ino] = info.name
        info.size = st.st_size
    elif stat.S_ISSOCK(st.st_mode):
        return  # tar has no entry for it, and without its process it is nothing
    else:
        raise unsupported("tar.devices")
    head = info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    if not info.isreg():
        yield head
        return
    with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd), "rb") as f:
        yield head
        left = info.size
        while left > 0:
            data = f.read(min(left, CHUNK)) or bytes(min(left, CHUNK))  # zeros, where it has become shorter meanwhile
            left -= len(data)
            yield data
    yield bytes(-info.size % tarfile.BLOCKSIZE)


# Unpacking.


class Entry:
    """One header: what the fixed fields say, changed by the extended ones before it."""

    def __init__(self, block):
        if sum(block[:148]) + sum(block[156:]) + 8 * 32 != _number(block[148:156]):
            raise damaged("has a header whose checksum is wrong")
        self.type = block[156:157]
        self.name, self.link = _text(block[0:100]), _text(block[157:257])
        self.mode, self.uid, self.gid = _number(block[100:108]) & 0o7777, _number(block[108:116]), _number(block[116:124])
        self.size, self.mtime = _number(block[124:136]), _number(block[136:148]) * 10**9
        self.pieces = self.length = None  # of a sparse file: the offset and size of each piece that is not a hole, and how long it is
        if block[257:263] == b"ustar\0" and block[345] != 0:
            self.name = _text(block[345:500]) + b"/" + self.name

    def extend(self, records):
        for key, value in records.items():
            try:
                if key == b"path":
                    self.name = value
                elif key == b"linkpath":
                    self.link = value
                elif key in (b"size", b"uid", b"gid"):
                    setattr(self, key.decode(), int(value))
                elif key == b"mtime":
                    whole, _, part = value.partition(b".")
                    fraction = int(part.ljust(9, b"0")[:9] or 0)
                    self.mtime = int(whole) * 10**9 + (-fraction if value.startswith(b"-") else fraction)
            except ValueError:
                raise damaged(f"has a record {key!r} that is no number") from None
        self.name = records.get(b"GNU.sparse.name", self.name)  # its path is one that GNU tar makes up


def _text(field):
    return field.split(b"\0", 1)[0]


def _number(field):
    if field[0] & 0x80:  # base 256, with a sign
        return int.from_bytes(bytes([field[0] & 0x7F | (0x80 if field[0] & 0x40 else 0)]) + field[1:], "big", signed=True)
    try:
        return int(field.strip(b" \0") or b"0", 8)
    except ValueError:
        raise damaged("has a header with a number that is none") from None


def _records(data):
    """The records of an extended header: "length key=value", a line each."""
    records = {}
    while data:
        length, space, _ = data.partition(b" ")
        if not space or not length.isdigit() or len(length) > 9 or int(length) <= len(length) + 1:
            raise damaged("has an extended header whose record has no length")
        record, data = data[: int(length)], data[int(length) :]
        key, equals, value = record[len(length) + 1 : -1].partition(b"=")
        if len(record) != int(length) or not record.endswith(b"\n") or not equals or b"\0" in key + value:
            raise damaged("has an extended header with a broken record")
        if key in (b"GNU.sparse.offset", b"GNU.sparse.numbytes"):  # the only ones that come again and again
            key, value = b"GNU.sparse.map", records.get(b"GNU.sparse.map", b"") + value + b","
        records[key] = value
    return records


# Sparse files. Their entries hold nothing but the pieces between the holes; where those belong is told in the header and blocks after it (the
# old format of GNU), in the extended header (0.0 and 0.1), or in blocks before the data (1.0).


def _sparse(e, block, records, read):
    """Reads where the pieces of an entry belong, if it is a sparse file."""
    version = records.get(b"GNU.sparse.major", b"0") + b"." + records.get(b"GNU.sparse.minor", b"0")
    length = records.get(b"GNU.sparse.realsize", records.get(b"GNU.sparse.size", b""))
    if e.type == b"S":
        e.type, e.length, numbers, more = b"0", _number(block[483:495]), _fields(block[386:482]), block[482]
        while more:
            block = _map_block(read, 12 * len(numbers))
            more = block[504]
            numbers += _fields(block[:504])
    elif e.type not in b"0\0007" or not any(key.startswith(b"GNU.sparse.") for key in records):
        return
    elif version == b"1.0":
        e.length, lines, count, wanted = _natural(length), bytearray(), 0, 0
        while count <= wanted:  # the first says how many pairs follow
            lines += (block := _map_block(read, len(lines)))
            count += block.count(b"\n")
            if count and not wanted:
                wanted = 2 * _natural(lines[: lines.index(b"\n")])
        numbers = [_natural(line) for line in lines.split(b"\n")[1 : wanted + 1]]
        e.size -= len(lines)
    elif version in (b"0.0", b"0.1"):
        e.length, numbers = _natural(length), [_natural(n) for n in records.get(b"GNU.sparse.map", b"").split(b",") if n]
    else:
        raise unsupported("tar.sparse")
    e.pieces, end = list(zip(numbers[::2], numbers[1::2])), 0
    for offset, size in e.pieces:
        if not end <= offset <= offset + size:
            raise damaged("has a sparse file whose pieces are not one after another")
        end = offset + size
    if len(numbers) % 2 or not end <= e.length < 2**63 or sum(size for _, size in e.pieces) != e.size:
        raise damaged("has a sparse file whose pieces are not what is in it")


def _map_block(read, before):
    block = read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE or before > 1 << 20:
        raise damaged("has a sparse file whose map is too long, or ends within it")
    return block


def _fields(data):
    """The numbers of a map in a header. Those that are not used are empty."""
    return [_number(data[i : i + 12]) for i in range(0, len(data), 12) if data[i]]


def _natural(digits):
    if not digits.isdigit() or len(digits) > 20:
        raise damaged("has a sparse file with a number that is none")
    return int(digits)


def entries(read):
    """Yields the entries of an archive whose bytes read(n) gives, fewer than n only at the end; whoever gets an entry reads its data."""
    globals_, own = {}, {}
    while True:
        block = read(tarfile.BLOCKSIZE)
        if len(block) < tarfile.BLOCKSIZE:
            raise damaged("ends without its end mark")
        if not any(block):
            if len(read(tarfile.BLOCKSIZE)) not in (0, tarfile.BLOCKSIZE):
                raise damaged("ends in its end mark")
            return
        entry = Entry(block)
        if entry.type in b"xgLK":
            if not 0 <= entry.size <= 1 << 20:
                raise damaged("has an extended header of an impossible size")
            data = read(entry.size + -entry.size % tarfile.BLOCKSIZE)
            if len(data) < entry.size:
                raise damaged("ends in an extended header")
            data = data[: entry.size]
            if entry.type == b"g":
                globals_.update(_records(data))
            elif entry.type == b"x":
                own.update(_records(data))
            else:
                own[b"path" if entry.type == b"L" else b"linkpath"] = data.rstrip(b"\0")
            continue
        records, own = {**globals_, **own}, {}
        entry.extend(records)
        if entry.size < 0 or not 0 <= min(entry.uid, entry.gid) <= max(entry.uid, entry.gid) < 2**32 - 1:
            raise damaged("has an entry with a size or an owner that cannot be")
        _sparse(entry, block, records, read)
        yield entry


def unpack(root, read, writing):
    """Unpacks below the directory root. writing() is a context in which alone the volume is changed."""
    dirs = {}  # attributes of directories: they are set in the end, for what is written below changes them
    for e in entries(read):
        parts = _inside(e.name)
        if e.type in b"0\0" and e.name.endswith(b"/"):
            e.type = b"5"  # as the oldest format says it
        if e.type not in b"0\0007":
            e.size, e.pieces = 0, None
        with writing():
            fd = _make(root, parts, e)
        if e.type == b"5":
            dirs[tuple(parts)] = e
        try:
            _data(fd, read, e, writing)
            if fd is not None:
                with writing():
                    _attributes(fd, e)
        finally:
            if fd is not None:
                os.close(fd)
    for parts, e in sorted(dirs.items(), reverse=True):
        with writing(), contextlib.suppress(FileNotFoundError, NotADirectoryError):  # replaced by a later entry
            fd = open_below(root, parts)
            try:
                _attributes(fd, e)
            finally:
                os.close(fd)


def _inside(name):
    """The parts of an archive's name. One from the root on is below the volume's root."""
    parts = [p for p in name.split(b"/") if p not in (b"", b".")]
    if b".." in parts or b"\0" in name:
        raise damaged(f"has the name {name[:200]!r}, which leaves the volume")
    return parts


def _make(root, parts, e):
    """Makes what an entry says; gives a descriptor where there are data and attributes to write, for a regular file."""
    if not parts:
        if e.type != b"5":
            raise damaged("has an entry for the root that is no directory")
        return None
    name = parts[-1]
    try:
        parent = open_below(root, parts[:-1], make=True)
    except NotADirectoryError:  # a link is none either
        raise damaged(f"writes below {b'/'.join(parts[:-1])[:200]!r}, which is no directory") from None
    try:
        if e.type == b"5":
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISDIR(_lstat(parent, name).st_mode):
                    os.unlink(name, dir_fd=parent)
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=parent)
            return None
        if e.type == b"1":
            return _hard_link(root, parts, parent, e)
        if e.type in b"34":
            raise unsupported("tar.devices")
        if e.type not in b"0\000267":
            raise damaged(f"has an entry of the unknown type {e.type!r}")
        _clear(parent, name)
        if e.type == b"2":
            os.symlink(e.link, name, dir_fd=parent)
            os.chown(name, e.uid, e.gid, dir_fd=parent, follow_symlinks=False)
            os.utime(name, ns=(e.mtime, e.mtime), dir_fd=parent, follow_symlinks=False)
            return None
        if e.type == b"6":
            os.mkfifo(name, 0o600, dir_fd=parent)
            return os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=parent)
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=parent)
    finally:
        os.close(parent)


def _clear(parent, name):
    """Makes room for what replaces a file or a link, or an empty directory."""
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        pass
    except IsADirectoryError:
        try:
            os.rmdir(name, dir_fd=parent)
        except OSError:
            raise damaged(f"replaces the directory {name[:200]!r}, which is not empty") from None


def _hard_link(root, parts, parent, e):
    target = _inside(e.link)
    try:
        other = open_below(root, target[:-1])
    except OSError:
        raise damaged(f"links to {e.link[:200]!r}, which is not there") from None
    try:
        st = _lstat(other, target[-1]) if target else None
        if st is None or stat.S_ISDIR(st.st_mode):
            raise damaged(f"links to {e.link[:200]!r}, which is a directory")
        if target != parts:
            _clear(parent, parts[-1])
            os.link(target[-1], parts[-1], src_dir_fd=other, dst_dir_fd=parent, follow_symlinks=False)
        return None
    except FileNotFoundError:
        raise damaged(f"links to {e.link[:200]!r}, which is not there") from None
    finally:
        os.close(other)


def _data(fd, read, e, writing):
    if e.pieces is not None:
        with writing():
            os.ftruncate(fd, e.length)  # of holes only, as yet
    for offset, left in [(0, e.size)] if e.pieces is None else e.pieces:
        while left > 0:
            data = read(min(left, CHUNK))
            if not data:
                raise damaged("ends in a file")
            left -= len(data)
            with writing():
                view = memoryview(data)
                while view:
                    written = os.pwrite(fd, view, offset)
                    view, offset = view[written:], offset + written
    padding = -e.size % tarfile.BLOCKSIZE
    if len(read(padding)) < padding:
        raise damaged("ends in a file's padding")


def _attributes(fd, e):
    os.fchown(fd, e.uid, e.gid)  # before the mode, for it clears setuid
    os.fchmod(fd, e.mode)
    os.utime(fd, ns=(e.mtime, e.mtime))
