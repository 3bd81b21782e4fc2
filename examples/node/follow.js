// One follower of a process: what it is sent, and what it says.
import { invalid, refused } from './errors.js';
import { endOf } from './journal.js';

class Follower {
  stdin = false;
  #call;
  #process;
  #position; // all before was sent
  #stdin = [];
  #stdinEnded = false;
  #over = null; // resolves what the follower waits for, with an error
  #ended;
  #wake = () => {};

  constructor(call, process, header) {
    this.#call = call;
    this.#process = process;
    this.#position = header.position;
    this.stdin = header.stdin;
    this.#ended = new Promise((_, reject) => { this.#over = reject; });
    this.#ended.catch(() => {});
  }

  fail(error) {
    this.#over(error);
  }

  wake() {
    this.#wake();
  }

  hear(message) {
    if (this.#process.follower !== this) return;
    if (message.frame === 'ack' && message.ack <= this.#position) this.#process.ack(message.ack);
    if (message.frame === 'stdin' && message.stdin.length > 0) this.#stdin.push(message.stdin);
    if (message.frame === 'stdinEnd') this.#stdinEnded = true;
    this.#process.feed();
  }

  // nextStdin gives up to size bytes, "end" when stdin was said to have ended, or null.
  nextStdin(size) {
    if (this.#stdin.length === 0) return this.#stdinEnded ? 'end' : null;
    const piece = this.#stdin[0].subarray(0, size);
    if (piece.length === this.#stdin[0].length) this.#stdin.shift();
    else this.#stdin[0] = this.#stdin[0].subarray(size);
    return piece;
  }

  // send waits until the message is on its way, so that who does not read holds up only itself.
  #send(message) {
    return Promise.race([new Promise((resolve) => { this.#call.write(message, resolve); }), this.#ended]);
  }

  async run(header) {
    const p = this.#process;
    const generation = p.follow(this, header);
    let taken = p.taken;
    await this.#send({ opened: { state: p.info().state, stdinTaken: taken, stdinGeneration: generation } });
    for (let exitSent = false; ;) {
      const changed = new Promise((resolve) => { this.#wake = resolve; });
      const records = p.journal.read(this.#position);
      if (records.length > 0) {
        this.#position = endOf(records.at(-1));
        await this.#send({ records: { records } });
      } else if (this.stdin && taken !== p.taken) {
        taken = p.taken;
        await this.#send({ taken });
      } else if (p.exit && !exitSent) {
        exitSent = true;
        await this.#send({ exit: p.exit });
      } else if (exitSent && p.acked === p.journal.end) {
        return;
      } else if (p.lost) {
        throw refused('abandoned', 'nobody is left who could tell how the process ended');
      } else {
        await Promise.race([changed, this.#ended]);
      }
    }
  }
}

// follow serves one call. find gives the process that a header names.
export function follow(call, find, statusOf) {
  let follower = null;
  let waiting = null; // what was said between the header and the time when its process was found
  const fail = (error) => {
    if (!call.cancelled) call.emit('error', statusOf(error));
  };
  const begin = async (header) => {
    const process = await find(header);
    follower = new Follower(call, process, header);
    call.on('cancelled', () => follower.fail(new Error('cancelled')));
    if (call.cancelled) return;
    const done = follower.run(header);
    for (const message of waiting) follower.hear(message);
    try {
      await done;
    } finally {
      if (process.follower === follower) process.follower = null;
    }
    call.end();
  };
  call.on('data', (message) => {
    if (follower) follower.hear(message);
    else if (waiting) waiting.push(message);
    else if (message.frame !== 'header') fail(invalid('spec', 'the header comes first'));
    else {
      waiting = [];
      begin(message.header).catch(fail);
    }
  });
  call.on('end', () => {
    if (!waiting) fail(invalid('spec', 'there is no header'));
  });
}
