// Volumes: a directory each, and what is known of them in memory, for nothing outlives the plugin.
import fs from 'node:fs';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { crc32c } from './crc32c.js';
import { bytes, internal, invalid, notFound, refused, text } from './errors.js';
import { pack, unpack } from './tar.js';
import { Things } from './things.js';

const run = promisify(execFile);

// remove leaves to another program what is not empty, for Node does not remove names that are not UTF-8.
export async function remove(dir) {
  await fs.promises.rmdir(dir).catch(() => run('rm', ['-rf', '--', dir]));
}

export class Volumes extends Things {
  #dir;
  #inUse;

  // inUse says whether a process lives that can write a volume.
  constructor(dir, inUse) {
    super('volume');
    this.#dir = dir;
    this.#inUse = inUse;
    fs.mkdirSync(dir, { recursive: true });
  }

  // made gives a volume that is whole.
  made(id) {
    const volume = this.get(id);
    if (volume.state === 'CREATING') throw refused('creating', `volume "${id}" is half made`);
    return volume;
  }

  async createVolume(r) {
    await this.create(r, (volume) => {
      const parent = r.cloneOf ? this.made(r.cloneOf) : null;
      if (parent && parent.state !== 'SEALED') throw refused('not-sealed', `volume "${r.cloneOf}" is not sealed`);
      Object.assign(volume, { parent: r.cloneOf, streams: new Set(), tree: `${this.#dir}/${r.id}` });
      return this.#make(volume, parent, r);
    });
  }

  async #make(volume, parent, { uid, gid }) {
    try {
      if (parent) await run('cp', ['-a', '--reflink=auto', '--', parent.tree, volume.tree]);
      else await fs.promises.mkdir(volume.tree, { mode: 0o755 });
      await fs.promises.chown(volume.tree, uid, gid);
      volume.state = 'OPEN';
    } catch (error) {
      await remove(volume.tree);
      throw error;
    }
  }

  // sealVolume decides at once, so that no process starts in between, and then waits for the streams that it has ended.
  async sealVolume({ id }) {
    const volume = this.made(id);
    if (volume.state === 'OPEN' && this.#inUse(id)) throw refused('in-use', `a process lives that can write volume "${id}"`);
    volume.state = 'SEALED';
    await this.#endStreams(volume);
  }

  async #endStreams(volume) {
    const streams = [...volume.streams];
    for (const stream of streams) stream.stop();
    await Promise.all(streams.map((stream) => stream.done));
  }

  async destroyVolume({ id }) {
    await this.destroy(id, async (volume) => {
      await this.#endStreams(volume);
      await remove(volume.tree);
    });
  }

  listVolumes({ filter }) {
    return this.list(filter).map(({ id, token, labels, state, parent }) => ({ id, token, labels, state: `VOLUME_STATE_${state}`, parent, bytes: -1 }));
  }

  // resolve finds a path in a volume. Links on the way are followed, one at the end is not. Where it makes what is missing of the path, no link may be in it.
  #resolve(volume, path, makes = false) {
    const base = text(Buffer.from(volume.tree));
    const left = path.split('/');
    const at = [];
    for (let links = 0; left.length > 0;) {
      const part = left.shift();
      if (part === '' || part === '.') continue;
      if (part === '..') {
        if (at.length === 0) throw invalid('path', 'the path leaves the volume');
        at.pop();
        continue;
      }
      const here = `${base}/${[...at, part].join('/')}`;
      const info = fs.lstatSync(bytes(here), { throwIfNoEntry: false });
      const last = left.every((p) => p === '' || p === '.');
      if (!info && makes) fs.mkdirSync(bytes(here), 0o755);
      else if (!info) throw notFound('file', Buffer.from(path, 'latin1').toString());
      if (info?.isSymbolicLink() && makes) throw invalid('path', 'the path goes through a link, which no archive goes through');
      if (info?.isSymbolicLink() && !last) {
        const target = fs.readlinkSync(bytes(here), 'latin1');
        if (target.startsWith('/') || ++links > 40) throw invalid('path', 'a link in the path leaves the volume, or is one of too many');
        left.unshift(...target.split('/'));
        continue;
      }
      if (info && !info.isDirectory() && (!last || makes)) throw makes ? invalid('path', 'the path goes through a file') : notFound('file', path);
      at.push(part);
    }
    return [base, ...at].join('/');
  }

  // streamIn unpacks what frames gives, each a message of the stream; aborted is called when the volume wants no more.
  async streamIn({ volume: id, path }, frames, abort) {
    const volume = this.made(id);
    let over = false;
    const live = () => {
      if (volume.state === 'SEALED') throw refused('sealed', `volume "${id}" is sealed`);
      if (over || volume.destroying) throw notFound('volume', id);
    };
    live();
    const stream = { stop: () => { over = true; abort(); } };
    const work = (async () => {
      const base = this.#resolve(volume, text(path), true);
      try {
        await unpack(receive(frames), base, live);
      } catch (error) {
        live(); // what ended the stream is the better reason
        throw error;
      }
    })();
    stream.done = work.catch(() => {});
    volume.streams.add(stream);
    try {
      await work;
    } finally {
      volume.streams.delete(stream);
    }
  }

  // streamOut gives the pieces of an archive.
  streamOut({ volume: id, path }) {
    return pack(this.#resolve(this.made(id), text(path)));
  }
}

// receive gives a function that gives one chunk after another, and null after a trailer that fits.
function receive(frames) {
  let size = 0;
  let sum = 0;
  let ended = false;
  return async () => {
    for (;;) {
      if (ended) return null;
      const { value: message, done } = await frames.next();
      if (done) throw internal('the stream ended without its trailer');
      if (message.frame === 'abort') throw internal('the sender\'s source failed');
      if (message.frame === 'data') {
        size += message.data.length;
        sum = crc32c(message.data, sum);
        if (message.data.length > 0) return message.data;
      }
      if (message.frame === 'trailer') {
        const { bytes: sent, crc32c: check } = message.trailer;
        if (sent !== size || (check !== undefined && check !== null && check !== sum)) throw internal('the trailer does not fit what came before it');
        ended = true;
      }
    }
  };
}
