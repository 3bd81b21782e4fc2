"""CRC-32C (Castagnoli), which ends every stream of chunks. Python has none in its standard library; other languages do.

A byte at a time Python manages some 5 MB/s. So most of a chunk is cut into lanes that advance side by side: the byte of each lane at
the same place, as one string, goes through bytes.translate, which looks up all lanes at once.
"""

LANES, STEPS = 1024, 256


def _table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


_T = _table()
_PLANES = [bytes(t >> shift & 255 for t in _T) for shift in (0, 8, 16, 24)]


def _zeros():
    """Tables that advance a state over STEPS zero bytes: one of 256 for each byte of the state, for the function is linear."""
    tables = []
    for byte in range(4):
        row = []
        for n in range(256):
            state = n << 8 * byte
            for _ in range(STEPS):
                state = state >> 8 ^ _T[state & 255]
            row.append(state)
        tables.append(row)
    return tables


_Z = _zeros()


def update(crc, data):
    """The checksum of what crc, 0 at first, is of, with data after it."""
    crc ^= 0xFFFFFFFF
    block = LANES * STEPS
    whole = len(data) // block * block
    for at in range(0, whole, block):
        crc = _lanes(crc, data[at : at + block])
    for b in data[whole:]:
        crc = crc >> 8 ^ _T[(crc ^ b) & 255]
    return crc ^ 0xFFFFFFFF


def _lanes(crc, block):
    p0 = p1 = p2 = p3 = 0  # the lanes' states, byte by byte, each plane a number of LANES bytes
    for step in range(STEPS):
        index = (p0 ^ int.from_bytes(block[step::STEPS], "little")).to_bytes(LANES, "little")
        t0, t1, t2, t3 = (int.from_bytes(index.translate(plane), "little") for plane in _PLANES)
        p0, p1, p2, p3 = p1 ^ t0, p2 ^ t1, p3 ^ t2, t3
    z0, z1, z2, z3 = _Z
    for b0, b1, b2, b3 in zip(*(p.to_bytes(LANES, "little") for p in (p0, p1, p2, p3))):
        crc = z0[crc & 255] ^ z1[crc >> 8 & 255] ^ z2[crc >> 16 & 255] ^ z3[crc >> 24] ^ (b0 | b1 << 8 | b2 << 16 | b3 << 24)
    return crc
