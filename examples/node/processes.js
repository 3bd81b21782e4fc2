// A process: its start by inside.pl, its pipes, its stdin from one follower at a time, its signals and its exit.
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import { spawn } from 'node:child_process';
import { bytes, internal, invalid, refused, text } from './errors.js';
import { Journal } from './journal.js';

const script = fs.readFileSync(new URL('inside.pl', import.meta.url), 'utf8');
const grace = 2000; // milliseconds that output may stay open after the leader's end
const defaults = ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME=/root'];
const { O_RDONLY, O_WRONLY, O_NONBLOCK } = fs.constants;

const timestamp = (ms) => ({ seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1e6 });

// A name that is none of the kernel's answers is told as it is.
const refusals = {
  ENOENT: ['executable-not-found', 'the program is not there'],
  ENOTDIR: ['executable-not-found', 'the program is not there'],
  EACCES: ['not-executable', 'the program may not be executed'],
  ENOEXEC: ['not-executable', 'the program is none for this machine, or its interpreter is missing'],
  ELOOP: ['not-executable', 'the program is behind too many links'],
  ENAMETOOLONG: ['executable-not-found', 'the program\'s name is too long'],
  E2BIG: ['too-large', 'arguments and environment are more than the kernel takes'],
  dir: ['path', 'the directory cannot be entered'],
};

export class Process {
  journal = new Journal();
  acked = 0; // all before was acknowledged
  taken = 0; // bytes of stdin
  generation = 0; // of stdin
  follower = null;
  exit = null;
  lost = false; // nobody is left who could tell the exit
  #startedAt = Date.now();
  #spill;
  #dropsOldest;
  #waiter; // the process of inside.pl, outside of the container's namespace of processes
  #mark; // the namespace that the whole tree of processes has in common, and a descriptor that keeps its number from being given to another one
  #kept = null;
  #leader = 0;
  #status = null; // how the leader ended
  #outputs = new Map(); // descriptors by their sockets, as long as they are open
  #stdin = null;
  #feeding = false;

  constructor({ id, token, spill, whenFull }) {
    this.id = id;
    this.token = token;
    this.#spill = spill || 64 << 20;
    this.#dropsOldest = whenFull === 'WHEN_FULL_DROP_OLDEST';
  }

  // start ends when the kernel has taken the command, or has refused it.
  start(container, { path, args, env, dir, stdin }) {
    const given = new Set(env.map((v) => text(v.subarray(0, v.indexOf('=')))));
    const variables = [...defaults.filter((d) => !given.has(d.split('=')[0])).map((d) => Buffer.from(d)), ...env];
    const fields = [Buffer.from(container.root), dir.length ? dir : bytes(container.dir), Buffer.from(String(args.length + 1)), path, ...args, ...variables];
    const payload = Buffer.concat(fields.flatMap((f) => [f, Buffer.alloc(1)]));
    const size = Buffer.alloc(4);
    size.writeUInt32BE(payload.length);

    const enter = ['--target', String(container.pid), '--mount', '--pid', '--ipc', '--net', '--no-fork', 'unshare', '--uts', 'perl', '-e', script];
    const child = spawn('nsenter', enter, { stdio: ['ignore', 'ignore', 'pipe', 'pipe'], detached: true, env: { PATH: process.env.PATH, LC_ALL: 'C' } });
    this.#waiter = child.pid;
    return new Promise((resolve, reject) => {
      child.on('error', (error) => reject(internal(`starting nsenter: ${error.message}`)));
      let complaint = '';
      child.stderr.on('data', (data) => { complaint = (complaint + data).slice(-1000); });
      const talk = child.stdio[3];
      talk.on('error', () => {});
      talk.write(Buffer.concat([size, payload]));
      let heard = '';
      talk.on('data', (data) => {
        const lines = (heard + data).split('\n');
        heard = lines.pop();
        for (const line of lines) {
          const [word, ...rest] = line.split(' ');
          if (word === 'pipes') {
            try {
              this.#kept = fs.openSync(`/proc/${child.pid}/ns/uts`, O_RDONLY);
              this.#mark = namespaceOf(child.pid);
              this.#open(rest, stdin);
              talk.write('g');
            } catch (error) {
              reject(error);
              talk.destroy(); // which ends inside.pl
            }
          }
          if (word === 'started') {
            this.#leader = Number(rest[0]);
            resolve();
          }
          if (word === 'failed') {
            const [reason, message] = refusals[rest[0]] ?? [];
            reject(reason ? invalid(reason, message) : internal(`executing the command: ${rest.join(' ')}`));
          }
          if (word === 'exit') this.#leaderEnded(Number(rest[0]));
        }
      });
      child.on('close', (code, signal) => {
        reject(internal(`entering the container: ${complaint.trim() || `inside.pl ended with ${signal ?? code}`}`)); // unless it started
        if (this.#leader && this.#status === null) {
          this.lost = true;
          this.follower?.wake();
        }
        if (this.exit || !this.#leader || this.lost) this.#letGo();
        if (!this.#leader) for (const socket of this.#outputs.keys()) socket.destroy();
        if (!this.#leader) this.#stdin?.destroy();
      });
    });
  }

  // open takes the near ends of the command's pipes, which inside.pl holds open meanwhile.
  #open([stdin, ...outputs], wantsStdin) {
    const end = (number, flags) => fs.openSync(`/proc/${this.#waiter}/fd/${number}`, flags | O_NONBLOCK);
    if (wantsStdin) {
      this.#stdin = new net.Socket({ fd: end(stdin, O_WRONLY), readable: false, writable: true });
      this.#stdin.on('error', () => {}); // the process reads no more
      this.#stdin.on('close', () => {
        this.#stdin = null;
        this.#feeding = false;
        this.feed();
      });
    }
    outputs.forEach((number, i) => {
      const fd = end(number, O_RDONLY);
      const socket = new net.Socket({ fd, readable: true, writable: false });
      this.#outputs.set(socket, fd);
      socket.on('data', (data) => this.#append(i === 0 ? 'OUTPUT_STREAM_STDOUT' : 'OUTPUT_STREAM_STDERR', data));
      socket.on('error', () => {});
      socket.on('close', () => {
        this.#outputs.delete(socket);
        this.#finish(false);
      });
    });
  }

  #append(stream, data) {
    this.journal.append(stream, data);
    if (this.#dropsOldest) this.journal.drop(this.journal.end - this.#spill);
    this.#hold();
    this.follower?.wake();
  }

  // hold stops reading as long as the journal is full, and so the writer.
  #hold() {
    const full = !this.#dropsOldest && this.journal.end - this.journal.oldest >= this.#spill;
    for (const socket of this.#outputs.keys()) {
      if (full) socket.pause();
      else if (socket.isPaused()) socket.resume();
    }
  }

  ack(position) {
    if (position <= this.acked) return;
    this.acked = position;
    this.journal.drop(position);
    this.#hold();
    this.follower?.wake();
  }

  #leaderEnded(status) {
    this.#status = { status, endedAt: Date.now() };
    this.#finish(false);
    if (!this.exit) this.#status.timer = setTimeout(() => this.#cut(), grace);
  }

  // cut takes what is in the pipes now, for a full journal too, and closes them.
  #cut() {
    let open = false;
    for (const [socket, fd] of this.#outputs) {
      while (socket.read() !== null); // is told as data
      const piece = Buffer.alloc(1 << 20); // more fits into no pipe
      try {
        const size = fs.readSync(fd, piece);
        if (size > 0) socket.emit('data', Buffer.from(piece.subarray(0, size)));
        open ||= size > 0 && fs.readSync(fd, piece) > 0; // what came between the two is too late
      } catch {
        open = true; // EAGAIN: nothing is there, and somebody could still write
      }
      socket.removeAllListeners('data');
      socket.destroy();
    }
    this.#finish(true, open);
  }

  #finish(cut, open = false) {
    if (!this.#status || this.exit || (!cut && this.#outputs.size > 0)) return;
    clearTimeout(this.#status.timer);
    const { status, endedAt } = this.#status;
    const signal = status & 127;
    const name = Object.entries(os.constants.signals).find(([, n]) => n === signal)?.[0].slice(3) ?? String(signal);
    this.exit = {
      code: signal ? 128 + signal : status >> 8, signal: signal ? name : '', reason: signal ? 'signalled' : 'exited',
      startedAt: timestamp(this.#startedAt), endedAt: timestamp(endedAt), outputCut: open,
    };
    this.#stdin?.destroy();
    this.#letGo();
    this.follower?.wake();
  }

  // letGo lets the namespace's number be another one's: nothing is signalled by it any more.
  #letGo() {
    if (this.#kept !== null) fs.closeSync(this.#kept);
    this.#kept = null;
  }

  info() {
    const state = this.exit ? 'EXITED' : this.lost ? 'ABANDONED' : 'RUNNING';
    return { id: this.id, token: this.token, state: `PROCESS_STATE_${state}`, exit: this.exit, startedAt: timestamp(this.#startedAt) };
  }

  // follow lets a follower take the place of the one before.
  follow(follower, { position, stdin }) {
    if (position < 0 || position > this.journal.end) throw invalid('spec', `the output has no position ${position}`);
    if (position < this.acked) throw refused('output-gap', `output before ${this.journal.oldest} was acknowledged and dropped`, { position: this.journal.oldest });
    this.follower?.fail(refused('superseded', 'there is a newer follower'));
    this.follower = follower;
    this.ack(position);
    return stdin ? ++this.generation : 0;
  }

  // feed passes stdin on: what has been taken from the follower is written, whatever becomes of the follower.
  feed() {
    while (!this.#feeding && this.follower?.stdin) {
      const piece = this.follower.nextStdin(64 << 10);
      if (piece === 'end') this.#stdin?.end();
      if (piece === null || piece === 'end') return;
      this.taken += piece.length;
      this.follower.wake();
      if (!this.#stdin || this.#stdin.writableEnded) continue; // nobody reads it
      this.#feeding = true;
      this.#stdin.write(piece, () => {
        this.#feeding = false;
        this.feed();
      });
    }
  }

  signal(name) {
    if (this.exit || this.lost) return;
    if (name === 'KILL') this.#killTree();
    else if (!this.#status) kill(-this.#leader, `SIG${name}`);
    else for (const pid of this.#tree()) if (groupOf(pid) === this.#leader) kill(pid, `SIG${name}`); // the group's number alone may be another one's now
  }

  // killTree kills until it finds nobody new: what is killed starts no others, and what it had started is found by the next look.
  #killTree() {
    const killed = new Set([this.#waiter]);
    for (let found = true; found;) {
      found = false;
      for (const pid of this.#tree()) {
        if (killed.has(pid)) continue;
        killed.add(pid);
        kill(pid, 'SIGKILL');
        found = true;
      }
    }
  }

  // tree gives all that came of the command.
  #tree() {
    return fs.readdirSync('/proc').map(Number).filter((pid) => pid && namespaceOf(pid) === this.#mark);
  }

  // abandon ends the follower of a process whose container is being destroyed.
  abandon(error) {
    this.follower?.fail(error);
  }
}

function groupOf(pid) {
  try {
    return Number(fs.readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').pop().split(' ')[2]);
  } catch {
    return null; // it has ended
  }
}

function namespaceOf(pid) {
  try {
    return fs.readlinkSync(`/proc/${pid}/ns/uts`);
  } catch {
    return null; // it has ended
  }
}

export function kill(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}
