// Containers: a directory each as root, with the machine's programs in it, and a first process that holds namespaces of mounts, processes,
// IPC and, if the container is hermetic, network. That process ends at the end of its input, which only the plugin holds.
import fs from 'node:fs';
import { spawn } from 'node:child_process';
import { bytes, exists, internal, invalid, notFound, refused, text } from './errors.js';
import { kill, Process } from './processes.js';
import { Things } from './things.js';
import { remove } from './volumes.js';

const maxProcesses = 4096;

// The first process tells its number as the machine knows it, mounts what the tables say, and ignores the ends of its children, so that the
// kernel leaves no zombies. Paths of volumes are mounted from inside the root: no link in a volume leads out of it.
const init = `set -e
read -r pid rest </proc/self/stat
mount -a -T "$1/machine"
if [ -e "$1/root/.volumes" ]; then
  chroot "$1/root" mount -a -T /.layers/table || exit 3
  umount "$1/root/.volumes" "$1/root/.layers"
  rmdir "$1/root/.volumes" "$1/root/.layers"
fi
echo "$pid"
exec chroot "$1/root" env --ignore-signal=CHLD cat >/dev/null`;

// What the machine lends: its programs, and the few files without which they do not work.
const programs = ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32', 'usr'];
const settings = ['alternatives', 'group', 'hosts', 'ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'nsswitch.conf', 'passwd', 'protocols', 'resolv.conf', 'services', 'ssl'];
const devices = ['null', 'zero', 'full', 'random', 'urandom', 'tty'];

const escape = (path) => path.replace(/[^!-~]|[\\#]/g, (c) => `\\${c.charCodeAt(0).toString(8).padStart(3, '0')}`);
const line = (...fields) => `${fields.map(escape).join(' ')} 0 0\n`; // of a table of mounts, with paths as bytes
const utf8 = (path) => text(Buffer.from(path));

export class Containers extends Things {
  #dir;
  #volumesDir;
  #volumes;

  constructor(dir, volumesDir, volumes) {
    super('container');
    this.#dir = dir;
    this.#volumesDir = volumesDir;
    this.#volumes = volumes;
    fs.mkdirSync(dir, { recursive: true });
  }

  async createContainer(r) {
    await this.create(r, (container) => {
      for (const { volume: id, readOnly } of r.mounts) {
        if (this.#volumes.made(id).state === 'SEALED' && !readOnly) throw refused('sealed', `volume "${id}" is sealed`);
      }
      const writes = r.mounts.filter((m) => !m.readOnly).map((m) => m.volume);
      Object.assign(container, { processes: new Map(), dir: text(r.dir) || '/', root: `${this.#dir}/${r.id}/root`, writes });
      return this.#make(container, r);
    });
    const container = this.get(r.id);
    if (container.state === 'GONE') throw dead(container);
  }

  async #make(container, { mounts, hermetic }) {
    const dir = `${this.#dir}/${container.id}`;
    try {
      this.#furnish(dir, mounts);
      await this.#begin(container, dir, hermetic);
      container.state = 'READY';
    } catch (error) {
      if (container.ended) await container.ended;
      await remove(dir);
      throw error;
    }
  }

  // furnish makes the root's directories, and the tables of what is to be mounted there.
  #furnish(dir, mounts) {
    const root = `${dir}/root`;
    for (const d of ['', 'dev', 'etc', 'home', 'proc', 'root', 'run', 'var']) fs.mkdirSync(`${root}/${d}`, { recursive: true });
    for (const d of ['tmp', 'var/tmp', 'dev/shm']) {
      fs.mkdirSync(`${root}/${d}`);
      fs.chmodSync(`${root}/${d}`, 0o1777);
    }
    for (const [name, to] of [['fd', 'fd'], ['stdin', 'fd/0'], ['stdout', 'fd/1'], ['stderr', 'fd/2']]) fs.symlinkSync(`/proc/self/${to}`, `${root}/dev/${name}`);
    let machine = line('proc', utf8(`${root}/proc`), 'proc', 'nosuid,nodev,noexec');
    const bind = (from, to, options) => { machine += line(utf8(from), utf8(to), 'none', options); };
    const lend = (path, options) => {
      const info = fs.lstatSync(path, { throwIfNoEntry: false });
      if (!info) return;
      if (info.isSymbolicLink() && programs.includes(path.slice(1))) {
        fs.symlinkSync(fs.readlinkSync(path), root + path);
        return;
      }
      const real = fs.statSync(path, { throwIfNoEntry: false });
      if (!real) return;
      if (real.isDirectory()) fs.mkdirSync(root + path);
      else fs.writeFileSync(root + path, '');
      bind(fs.realpathSync(path), root + path, options);
    };
    for (const name of programs) lend(`/${name}`, 'rbind,ro');
    for (const name of settings) lend(`/etc/${name}`, 'rbind,ro');
    for (const name of devices) lend(`/dev/${name}`, 'bind');
    if (mounts.length > 0) {
      fs.mkdirSync(`${root}/.volumes`);
      fs.mkdirSync(`${root}/.layers`);
      fs.mkdirSync(`${dir}/layers`);
      bind(this.#volumesDir, `${root}/.volumes`, 'bind');
      bind(`${dir}/layers`, `${root}/.layers`, 'bind');
      fs.writeFileSync(`${dir}/layers/table`, this.#table(dir, mounts));
    }
    fs.writeFileSync(`${dir}/machine`, machine);
  }

  // table says how the volumes are mounted, the outer ones first. Where a mount's directory is missing in a read-only volume, a layer that has
  // the directory is laid over it, for the volume itself may not change.
  #table(dir, mounts) {
    const depth = ({ path }) => path.split('/').length;
    const sorted = mounts.map((m) => ({ ...m, path: text(m.path) })).sort((a, b) => depth(a) - depth(b));
    return sorted.map(({ volume, path, readOnly }, i) => {
      const tree = `/.volumes/${volume}`;
      if (!readOnly) return line(tree, path, 'none', 'bind,X-mount.mkdir');
      let layered = false;
      for (const inner of sorted.filter((m) => m.path.startsWith(`${path}/`))) {
        const parts = inner.path.slice(path.length + 1).split('/');
        layered = cover(utf8(`${this.#volumesDir}/${volume}`), utf8(`${dir}/layers/${i}`), parts) || layered;
      }
      if (!layered) return line(tree, path, 'none', 'bind,ro,X-mount.mkdir');
      return line('overlay', path, 'overlay', `ro,X-mount.mkdir,lowerdir=/.layers/${i}:${tree}`);
    }).join('');
  }

  async #begin(container, dir, hermetic) {
    const flags = ['--mount', '--pid', '--ipc', '--fork', '--kill-child', '--propagation', 'private', ...(hermetic ? ['--net'] : [])];
    const child = spawn('unshare', [...flags, 'sh', '-c', init, 'sh', dir], { detached: true, env: { PATH: process.env.PATH, LC_ALL: 'C' } });
    child.stdin.on('error', () => {});
    let said = '';
    child.stderr.on('data', (data) => { said = (said + data).slice(-1000); });
    container.ended = new Promise((resolve) => {
      child.on('error', resolve); // it could not be started
      child.on('close', () => {
        if (container.state === 'READY') Object.assign(container, { state: 'GONE', reason: 'its first process ended' });
        resolve();
      });
    });
    let number = '';
    const told = new Promise((resolve) => {
      child.stdout.on('data', (data) => {
        number += data;
        if (number.endsWith('\n')) resolve();
      });
    });
    await Promise.race([told, container.ended]);
    if (child.exitCode !== null || child.signalCode !== null || !number.endsWith('\n')) {
      child.stdin.destroy();
      if (child.exitCode === 3) throw invalid('path', `mounting the volumes: ${said.trim()}`);
      throw internal(`making the container: ${said.trim() || 'its first process ended'}`);
    }
    container.pid = Number(number);
  }

  async destroyContainer({ id }) {
    await this.destroy(id, async (container) => {
      for (const p of container.processes.values()) p.abandon(notFound('container', id));
      if (container.state === 'READY') kill(container.pid, 'SIGKILL'); // and the kernel all others in its namespace before it
      await container.ended;
      await remove(`${this.#dir}/${id}`);
    });
  }

  listContainers({ filter }) {
    return this.list(filter).map(({ id, token, labels, state, reason }) => ({ id, token, labels, state: `CONTAINER_STATE_${state}`, reason }));
  }

  // there gives a container whose record can be read.
  there(id) {
    const container = this.get(id);
    if (container.state === 'CREATING') throw refused('creating', `container "${id}" is half made`);
    return container;
  }

  // process gives one that was started, or is being started and is not refused.
  async process(id, name) {
    const container = this.there(id);
    const p = container.processes.get(name);
    if (!p && container.state === 'GONE') throw dead(container);
    if (!p) throw notFound('process', name);
    await p.started.catch(() => { throw container.destroying ? notFound('container', id) : notFound('process', name); });
    return p;
  }

  async startProcess(r) {
    const container = this.there(r.container);
    if (container.state === 'GONE') throw dead(container);
    const known = container.processes.get(r.id);
    if (known && known.token !== r.token) throw exists('process', r.id);
    if (known) return known.started;
    for (const id of container.writes) {
      if (this.#volumes.get(id).state === 'SEALED') throw refused('sealed', `the container could write volume "${id}", which is sealed`);
    }
    if (container.processes.size >= maxProcesses) throw refused('processes', `container "${r.container}" has had ${maxProcesses} processes`);
    const p = new Process(r);
    container.processes.set(r.id, p);
    p.started = p.start(container, r).catch((error) => {
      container.processes.delete(r.id);
      if (container.destroying) throw notFound('container', r.container);
      if (container.state === 'GONE') throw dead(container);
      throw error;
    });
    return p.started;
  }

  listProcesses({ container: id }) {
    return [...this.there(id).processes.values()].map((p) => p.info());
  }

  async signalProcess({ container: id, process: name, signal }) {
    const p = await this.process(id, name);
    const container = this.there(id);
    if (!p.exit && container.state === 'GONE') throw dead(container);
    p.signal(signal);
  }

  // inUse says whether a process lives that can write a volume: one that has not ended, or what it has left behind.
  inUse(volume) {
    return this.list().some((c) => c.state === 'READY' && c.writes.includes(volume) && ([...c.processes.values()].some((p) => !p.exit) || lives(c)));
  }
}

const dead = ({ id, reason }) => refused('dead', `container "${id}" is gone: ${reason}`);

function lives(container) {
  try {
    return fs.readdirSync(`/proc/${container.pid}/root/proc`).some((name) => /^\d+$/.test(name) && name !== '1');
  } catch {
    return false; // the first process has ended, and all others before it
  }
}

// cover makes the directories of a path in a layer where the last of them is missing in the tree, and says whether it has. They look as they
// do in the tree.
function cover(tree, layer, parts) {
  const infos = [];
  for (let i = 0; i <= parts.length; i++) {
    const info = fs.lstatSync(bytes([tree, ...parts.slice(0, i)].join('/')), { throwIfNoEntry: false });
    if (info && !info.isDirectory()) return false; // a link leads elsewhere, and what is no directory cannot be mounted on
    infos.push(info);
  }
  if (infos.at(-1)) return false;
  infos.forEach((info, i) => {
    const at = bytes([layer, ...parts.slice(0, i)].join('/'));
    fs.mkdirSync(at, { recursive: true });
    if (!info) return;
    fs.chownSync(at, info.uid, info.gid);
    fs.chmodSync(at, info.mode & 0o7777);
  });
  return true;
}
