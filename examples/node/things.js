// Things are what has an id and a token, is made once, and is destroyed by whoever comes first while others wait.
import { exists, notFound } from './errors.js';

export class Things {
  #kind;
  #all = new Map();

  constructor(kind) {
    this.#kind = kind;
  }

  // get gives what is there, half made or not.
  get(id) {
    const thing = this.#all.get(id);
    if (!thing || thing.destroying) throw notFound(this.#kind, id);
    return thing;
  }

  // list gives those that a filter passes.
  list(filter) {
    const labels = Object.entries(filter?.labels ?? {});
    const passes = (t) => (!filter?.id || t.id === filter.id) && labels.every(([k, v]) => Object.hasOwn(t.labels, k) && t.labels[k] === v);
    return [...this.#all.values()].filter((t) => !t.destroying && passes(t));
  }

  // create has begin make a thing and gives up nothing when its caller does: whoever asks again waits for the same one.
  async create({ id, token, labels }, begin) {
    let thing;
    while ((thing = this.#all.get(id))?.destroying) await thing.destroying.catch(() => {});
    if (thing && thing.token !== token) throw exists(this.#kind, id);
    if (!thing) {
      thing = { id, token, labels, state: 'CREATING' };
      const making = begin(thing); // throws before anything is made where it cannot be
      this.#all.set(id, thing);
      thing.making = making.catch((error) => {
        this.#all.delete(id);
        throw error;
      });
      thing.making.catch(() => {}); // whoever made it may not wait any more
    }
    await thing.making;
  }

  async destroy(id, end) {
    const thing = this.#all.get(id);
    if (!thing) return;
    thing.destroying ??= (async () => {
      await thing.making.catch(() => {});
      try {
        await end(thing);
        this.#all.delete(id);
      } catch (error) {
        thing.destroying = undefined;
        throw error;
      }
    })();
    await thing.destroying;
  }
}
