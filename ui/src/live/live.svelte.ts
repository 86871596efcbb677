// What views and state see of the stream: whether it is there, and changes once per frame.
import type { Change, Message, Show } from './events';
import { Leader } from './leader';

export interface Listener {
  changes?: (changes: Change[]) => void;
  show?: (show: Show) => void;
  /** Events were missed: read everything again. */
  reset?: () => void;
}

/** How long the first reads wait for the stream, so that nothing falls between the two. */
const READY = 400;

class Live {
  online = $state(false);
  /** The stream was there and is gone: what is shown may be old. */
  wasOnline = $state(false);
  ready: Promise<void> = Promise.resolve();
  #listeners = new Set<Listener>();
  #queue: Change[] = [];
  #leader: Leader | null = null;
  #isReady: () => void = () => {};
  #waits = false;

  start(): void {
    if (this.#leader) return;
    let late = false;
    this.ready = new Promise((resolve) => (this.#isReady = resolve));
    setTimeout(() => ((late = true), this.#isReady()), READY);
    let first = true;
    this.#leader = new Leader((message) => {
      // The first reset only tells the number to go on from; who read before it reads again.
      if (message.kind === 'reset' && first && !late) return void ((first = false), this.#isReady());
      if (message.kind === 'reset') first = false;
      if (message.kind === 'state' && message.online && message.seq > 0) ((first = false), this.#isReady());
      this.#take(message);
    });
  }

  stop(): void {
    this.#leader?.close();
    this.#leader = null;
    this.online = this.wasOnline = false;
  }

  wake(): void {
    this.#leader?.wake();
  }

  /** Listens until the returned function is called. */
  on(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #take(message: Message): void {
    if (message.kind === 'state') {
      this.online = message.online;
      if (message.online) this.wasOnline = true;
    } else if (message.kind === 'reset') {
      this.#queue = [];
      for (const listener of this.#listeners) listener.reset?.();
    } else if (message.kind === 'show') {
      this.#flush();
      for (const listener of this.#listeners) listener.show?.(message.show);
    } else if (message.kind === 'changes') {
      this.#queue.push(...message.changes);
      this.#soon();
    }
  }

  /** Once per frame; a tab behind others has few frames or none, so a timer runs as well. */
  #soon(): void {
    if (this.#waits) return;
    this.#waits = true;
    requestAnimationFrame(() => this.#flush());
    setTimeout(() => this.#flush(), 100);
  }

  #flush(): void {
    this.#waits = false;
    const changes = this.#queue;
    if (!changes.length) return;
    this.#queue = [];
    for (const listener of this.#listeners) listener.changes?.(changes);
  }
}

export const live = new Live();
