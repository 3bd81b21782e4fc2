// A process's output in memory, with positions.
const timeNow = () => Date.now() * 1e6;

export class Journal {
  #records = []; // those before #first were dropped
  #first = 0;
  oldest = 0;
  end = 0;

  append(stream, data) {
    const last = this.#records.length > this.#first ? this.#records.at(-1) : null;
    if (last?.stream === stream && last.data.length + data.length <= 4096) last.data = Buffer.concat([last.data, data]); // of many tiny writes
    else this.#records.push({ position: this.end, stream, timeUnixNano: timeNow(), data });
    this.end += data.length;
  }

  // drop forgets all before a position.
  drop(position) {
    const records = this.#records;
    for (; this.#first < records.length; this.#first++) {
      const r = records[this.#first];
      if (r.position >= position) break;
      if (r.position + r.data.length > position) {
        records[this.#first] = { ...r, position, data: r.data.subarray(position - r.position) };
        break;
      }
      records[this.#first] = null;
    }
    if (this.#first === records.length || this.#first > 1000) this.#records = records.slice(this.#first);
    if (this.#records !== records) this.#first = 0;
    this.oldest = Math.max(this.oldest, position);
  }

  // read gives what there is from a position on, as much as fits one message, after a gap where the position was dropped.
  read(position) {
    if (position < this.oldest) return [{ position, stream: 'OUTPUT_STREAM_UNSPECIFIED', gapTo: this.oldest }];
    let low = this.#first;
    for (let high = this.#records.length; low < high;) {
      const middle = (low + high) >> 1;
      const r = this.#records[middle];
      if (r.position + r.data.length > position) high = middle;
      else low = middle + 1;
    }
    const found = [];
    for (let size = 0; low < this.#records.length && size < 256 << 10 && found.length < 2000; low++) {
      const r = this.#records[low];
      const skip = Math.max(0, position - r.position);
      found.push({ ...r, position: r.position + skip, data: r.data.subarray(skip) });
      size += r.data.length;
    }
    return found;
  }
}

export const endOf = (record) => record.gapTo || record.position + record.data.length;
