// CRC-32C (Castagnoli), which Node lacks.
const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let c = byte;
  for (let bit = 0; bit < 8; bit++) c = c & 1 ? (c >>> 1) ^ 0x82f63b78 : c >>> 1;
  return c;
});

// crc32c gives the checksum of what came before, whose checksum is sum, and of more.
export function crc32c(more, sum = 0) {
  let c = ~sum;
  for (let i = 0; i < more.length; i++) c = table[(c ^ more[i]) & 255] ^ (c >>> 8);
  return ~c >>> 0;
}
