// Archives into a directory, which leave it nowhere and are believed nothing, and out of it, by tar. Paths are strings of one character for each
// byte. What is done for one entry is done at once, without giving way: such calls are short, and the archive itself comes in pieces.
import fs from 'node:fs';
import { execFileSync, spawn } from 'node:child_process';
import { bytes, invalid, text, unsupported } from './errors.js';

const block = 512;
const second = 1000000000n; // in nanoseconds, as times are here
const damaged = (why) => invalid('archive', `the archive is damaged or leaves the volume: ${why}`);

// Reader cuts what next gives into pieces of the sizes that are asked for.
class Reader {
  #rest = Buffer.alloc(0);
  #next;

  constructor(next) {
    this.#next = next;
  }

  // some gives up to size bytes, and null at the end.
  async some(size) {
    while (this.#rest.length === 0) {
      const more = await this.#next();
      if (!more) return null;
      this.#rest = more;
    }
    const piece = this.#rest.subarray(0, size);
    this.#rest = this.#rest.subarray(piece.length);
    return piece;
  }

  async exactly(size) {
    const pieces = [];
    for (let left = size; left > 0;) {
      const piece = await this.some(left);
      if (!piece) throw damaged('it has no end');
      pieces.push(piece);
      left -= piece.length;
    }
    return pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
  }
}

function number(field) {
  if (field[0] & 0x80) { // GNU's binary numbers, negative ones too
    let n = BigInt(field[0] & 0x40 ? (field[0] | ~0xff) : field[0] & 0x7f);
    for (const b of field.subarray(1)) n = n * 256n + BigInt(b);
    return Number(n);
  }
  const digits = text(field).replace(/[\0 ]+$/, '').replace(/^ +/, '');
  if (!/^[0-7]*$/.test(digits)) throw damaged('a number is none');
  return digits === '' ? 0 : parseInt(digits, 8);
}

const cut = (field) => text(field.subarray(0, field.includes(0) ? field.indexOf(0) : field.length));

const checksum = (header) => header.reduce((sum, b, i) => sum + (i >= 148 && i < 156 ? 32 : b), 0);

function parse(header) {
  if (number(header.subarray(148, 156)) !== checksum(header)) throw damaged('a header\'s checksum is wrong');
  const field = (from, size) => header.subarray(from, from + size);
  const entry = {
    name: cut(field(0, 100)), mode: number(field(100, 8)) & 0o7777, uid: number(field(108, 8)), gid: number(field(116, 8)),
    size: number(field(124, 12)), mtime: BigInt(number(field(136, 12))) * second, type: String.fromCharCode(header[156]), link: cut(field(157, 100)),
    major: 0, minor: 0,
  };
  const magic = text(field(257, 8));
  if (magic.startsWith('ustar')) {
    if (entry.type === '3' || entry.type === '4') Object.assign(entry, { major: number(field(329, 8)), minor: number(field(337, 8)) });
    const prefix = cut(field(345, 155));
    if (magic === 'ustar\x0000' && prefix) entry.name = `${prefix}/${entry.name}`;
  }
  if (entry.type === '\0' || entry.type === '7') entry.type = '0';
  if (entry.type === '0' && entry.name.endsWith('/')) entry.type = '5'; // as before there was a type for directories
  return entry;
}

// apply puts the records of a PAX header over an entry.
function apply(entry, records) {
  const whole = (value) => {
    if (!/^\d{1,15}$/.test(value)) throw damaged('a PAX number is none');
    return Number(value);
  };
  for (let at = 0; at < records.length;) {
    const space = records.indexOf(' ', at);
    const size = space > at ? text(records.subarray(at, space)) : '';
    if (!/^[1-9]\d{0,8}$/.test(size)) throw damaged('a PAX record has no size');
    const end = at + Number(size);
    if (end <= space + 1 || end > records.length || records[end - 1] !== 10) throw damaged('a PAX record has the wrong size');
    const record = text(records.subarray(space + 1, end - 1));
    const equals = record.indexOf('=');
    if (equals <= 0) throw damaged('a PAX record has no name');
    const [key, value] = [record.slice(0, equals), record.slice(equals + 1)];
    at = end;
    if (key.startsWith('GNU.sparse.')) throw unsupported('tar.sparse');
    if (['path', 'linkpath'].includes(key) && value.includes('\0')) throw damaged('a name has a NUL');
    if (value === '') continue; // takes back what a global header said, and those are not heeded
    if (key === 'path') entry.name = value;
    if (key === 'linkpath') entry.link = value;
    if (key === 'size' || key === 'uid' || key === 'gid') entry[key] = whole(value);
    if (key === 'mtime') {
      const time = /^(-?)(\d{1,15})(?:\.(\d*))?$/.exec(value);
      if (!time) throw damaged('a PAX time is none');
      const ns = BigInt(time[2] + (time[3] ?? '').slice(0, 9).padEnd(9, '0'));
      entry.mtime = time[1] ? -ns : ns;
    }
  }
}

// inside gives the parts of a name, without "." and empty ones. A name that leaves the directory is refused, and so is an absolute one.
function inside(name) {
  if (name.startsWith('/')) throw damaged('a name is absolute');
  const parts = name.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..')) throw damaged('a name has ".." in it');
  return parts;
}

function stat(path) {
  return fs.lstatSync(bytes(path), { throwIfNoEntry: false });
}

// parent makes the directories above a name where they are missing, and goes through no link.
function parent(base, parts) {
  let dir = base;
  for (const part of parts.slice(0, -1)) {
    dir += `/${part}`;
    const there = stat(dir);
    if (!there) fs.mkdirSync(bytes(dir), 0o755);
    else if (!there.isDirectory()) throw damaged('a name goes through what is no directory');
  }
  return dir;
}

// setTime passes the seconds as text, for Node takes a negative number for the present time. Node cuts at a millionth of a second; half of one
// more keeps that from taking a whole one away.
function setTime(path, ns) {
  const digits = String(ns < 0n ? -ns : ns).padStart(10, '0');
  const seconds = ns % second === 0n ? String(ns / second) : `${ns < 0n ? '-' : ''}${digits.slice(0, -9)}.${digits.slice(-9, -3)}5`;
  fs.lutimesSync(bytes(path), seconds, seconds);
}

function setOwner(path, entry) {
  if (entry.uid < 0 || entry.uid > 4294967294 || entry.gid < 0 || entry.gid > 4294967294) throw damaged('an owner is none');
  fs.lchownSync(bytes(path), entry.uid, entry.gid);
  if (entry.type !== '2') fs.chmodSync(bytes(path), entry.mode); // after the owner, who changes setuid bits
}

// unpack reads an archive to the end of what next gives, and puts it below base, a directory. live is asked before each change: it throws where
// nothing may be written any more.
export async function unpack(next, base, live) {
  const reader = new Reader(next);
  const dirs = new Map(); // their times change with all that is made in them, and are set when all is there
  let records = null; // what a PAX header or GNU's long names say of the next entry
  let long = {};
  for (;;) {
    const header = await reader.exactly(block);
    if (header.every((b) => b === 0)) {
      if (records || long.name || long.link) throw damaged('a header has no entry');
      if (!(await reader.exactly(block)).every((b) => b === 0)) throw damaged('it goes on after its end');
      break;
    }
    const entry = parse(header);
    if ('xgLK'.includes(entry.type)) {
      if (!(entry.size >= 0 && entry.size <= 1 << 20)) throw damaged('a header\'s size makes no sense');
      const content = Buffer.from(await reader.exactly(entry.size));
      await reader.exactly((block - (entry.size % block)) % block);
      if (entry.type === 'x') records = content;
      if (entry.type === 'g') apply({}, content);
      if (entry.type === 'L') long.name = cut(content);
      if (entry.type === 'K') long.link = cut(content);
      continue;
    }
    if (long.name) entry.name = long.name;
    if (long.link) entry.link = long.link;
    if (records) apply(entry, records);
    records = null;
    long = {};
    if (entry.type === '0' && entry.name.endsWith('/')) throw damaged('a file has the name of a directory');
    if (!Number.isSafeInteger(entry.size) || entry.size < 0) throw damaged('a size makes no sense');
    live();
    try {
      await take(entry, reader, base, dirs, live);
    } catch (error) {
      if (['ENAMETOOLONG', 'EINVAL', 'ENOTEMPTY', 'EEXIST', 'ENOTDIR', 'EBUSY', 'EPERM', 'EMLINK'].includes(error.code)) throw damaged(error.code);
      throw error;
    }
  }
  while (await reader.some(1 << 20)); // what comes after the end mark is nobody's
  live();
  for (const [dir, mtime] of dirs) if (stat(dir)?.isDirectory()) setTime(dir, mtime);
}

// take makes what an entry names in place of what is there.
async function take(entry, reader, base, dirs, live) {
  const parts = inside(entry.name);
  if (parts.length === 0 && entry.type !== '5') throw damaged('an entry has no name');
  const path = parts.length ? `${parent(base, parts)}/${parts.at(-1)}` : base;
  if (!'0123456'.includes(entry.type)) throw entry.type === 'S' ? unsupported('tar.sparse') : damaged('the type of an entry is unknown');
  if (entry.type !== '0' && entry.type !== '1' && entry.size > 0) throw damaged('what is no file has content');

  if (entry.type === '5') {
    const there = stat(path);
    if (there && !there.isDirectory()) fs.unlinkSync(bytes(path));
    if (!there?.isDirectory()) fs.mkdirSync(bytes(path), 0o755);
    setOwner(path, entry);
    dirs.set(path, entry.mtime);
    return;
  }
  let target;
  if (entry.type === '1') {
    const to = inside(entry.link);
    if (to.length === 0) throw damaged('a hard link leads nowhere');
    target = `${base}/${to.join('/')}`;
    for (let i = 1; i < to.length; i++) {
      if (!stat(`${base}/${to.slice(0, i).join('/')}`)?.isDirectory()) throw damaged('a hard link goes through what is no directory');
    }
    const there = stat(target);
    if (!there || there.isDirectory()) throw damaged('a hard link leads to no file');
    if (target === path) return;
  }
  const old = stat(path);
  if (old?.isDirectory()) fs.rmdirSync(bytes(path));
  else if (old) fs.unlinkSync(bytes(path));

  switch (entry.type) {
    case '0':
      await fill(entry, reader, path, live);
      break;
    case '1':
      fs.linkSync(bytes(target), bytes(path));
      return;
    case '2':
      if (entry.link === '') throw damaged('a symbolic link leads nowhere');
      fs.symlinkSync(bytes(entry.link), bytes(path));
      break;
    default: { // Node cannot make these, and passes only UTF-8 to a program that can
      const plain = `${base}/.slipway-new-node`;
      const numbers = entry.type === '6' ? ['p'] : [entry.type === '3' ? 'c' : 'b', String(entry.major), String(entry.minor)];
      execFileSync('mknod', [plain, ...numbers], { stdio: 'ignore' });
      fs.renameSync(bytes(plain), bytes(path));
    }
  }
  setOwner(path, entry);
  setTime(path, entry.mtime);
}

async function fill(entry, reader, path, live) {
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = fs.constants;
  const file = fs.openSync(bytes(path), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    for (let left = entry.size; left > 0;) {
      const piece = await reader.some(left);
      if (!piece) throw damaged('it has no end');
      live();
      for (let done = 0; done < piece.length;) done += fs.writeSync(file, piece, done);
      left -= piece.length;
    }
  } finally {
    fs.closeSync(file);
  }
  await reader.exactly((block - (entry.size % block)) % block);
}

// pack gives the pieces of an archive of what is at path: what is below it if that is a directory, else one entry. The names go to tar by its input, and
// the directory by a descriptor, for they need not be UTF-8.
export async function* pack(path) {
  const whole = stat(path).isDirectory();
  const slash = path.lastIndexOf('/');
  const names = whole ? fs.readdirSync(bytes(path), { encoding: 'latin1' }).sort() : [path.slice(slash + 1)];
  const dir = fs.openSync(bytes(whole ? path : path.slice(0, slash)), fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
  const options = ['--format=posix', '--pax-option=delete=atime,delete=ctime', '--numeric-owner', '--sort=name', '--null', '--files-from=-'];
  const child = spawn('tar', ['--create', '--directory=/proc/self/fd/3', ...options], {
    stdio: ['pipe', 'pipe', 'pipe', dir], env: { PATH: process.env.PATH, LC_ALL: 'C' },
  });
  fs.closeSync(dir);
  let complaint = '';
  child.stderr.on('data', (data) => { complaint = (complaint + data).slice(-1000); });
  child.stdin.on('error', () => {}).end(bytes(names.map((name) => `${name}\0`).join('')));
  const ended = new Promise((resolve) => { child.on('close', resolve).on('error', resolve); });
  try {
    yield* child.stdout;
    if ((await ended) !== 0) throw new Error(`packing: ${complaint.trim()}`);
  } finally {
    child.kill('SIGKILL');
  }
}
