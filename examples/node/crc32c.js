// CRC-32C (Castagnoli), eight bytes at a time: Node has none.
const tables = [];
for (let t = 0; t < 8; t++) {
  tables.push(new Uint32Array(256));
  for (let i = 0; i < 256; i++) {
    let c = t === 0 ? i : tables[t - 1][i];
    if (t > 0) {
      tables[t][i] = (c >>> 8) ^ tables[0][c & 255];
      continue;
    }
    for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ 0x82f63b78 : c >>> 1;
    tables[t][i] = c;
  }
}

// crc32c gives the checksum of what came before, whose checksum is sum, and of more.
export function crc32c(more, sum = 0) {
  const [t0, t1, t2, t3, t4, t5, t6, t7] = tables;
  let c = ~sum;
  let i = 0;
  for (; i + 8 <= more.length; i += 8) {
    c ^= more[i] | (more[i + 1] << 8) | (more[i + 2] << 16) | (more[i + 3] << 24);
    c = t7[c & 255] ^ t6[(c >>> 8) & 255] ^ t5[(c >>> 16) & 255] ^ t4[c >>> 24]
      ^ t3[more[i + 4]] ^ t2[more[i + 5]] ^ t1[more[i + 6]] ^ t0[more[i + 7]];
  }
  for (; i < more.length; i++) c = t0[(c ^ more[i]) & 255] ^ (c >>> 8);
  return ~c >>> 0;
}
