// One stream, kept open: cursor, back-off, and a limit on silence.
import { openEvents } from '~/api/events';
import type { Change, Message, Show } from './events';
import { Parser } from './sse';

/** A heartbeat comes every 15 s; after this the line is dead. */
const SILENCE = 40_000;
const SHORTEST = 500;
const LONGEST = 15_000;
/** A number that no store has: the answer is a `reset` that tells the newest. */
const UNKNOWN = Number.MAX_SAFE_INTEGER;

export class Stream {
  /** The last event seen; null before the first answer. */
  cursor: number | null;
  #stop = new AbortController();
  #attempt: AbortController | null = null;
  #tell: (message: Message) => void;

  constructor(cursor: number | null, tell: (message: Message) => void) {
    this.cursor = cursor;
    this.#tell = tell;
    void this.#run();
  }

  close(): void {
    this.#stop.abort();
    this.#attempt?.abort();
  }

  /** Tries at once, such as when the network is back. */
  wake(): void {
    this.#wake();
  }
  #wake: () => void = () => {};

  async #run(): Promise<void> {
    let wait = SHORTEST;
    while (!this.#stop.signal.aborted) {
      const was = Date.now();
      await this.#follow();
      if (this.#stop.signal.aborted) return;
      this.#tell({ kind: 'state', online: false, seq: this.cursor ?? 0 });
      // A stream that lasted was a good one: begin again with the shortest wait.
      wait = Date.now() - was > LONGEST ? SHORTEST : Math.min(wait * 2, LONGEST);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, wait * (0.75 + Math.random() / 2));
        this.#wake = () => (clearTimeout(timer), resolve());
      });
    }
  }

  async #follow(): Promise<void> {
    const attempt = (this.#attempt = new AbortController());
    const silent = () => setTimeout(() => attempt.abort(), SILENCE);
    let timer = silent();
    try {
      const answer = await openEvents(this.cursor ?? UNKNOWN, attempt.signal);
      if (!answer.ok || !answer.data.body) return;
      const parser = new Parser();
      const reader = answer.data.body.pipeThrough(new TextDecoderStream()).getReader();
      this.#tell({ kind: 'state', online: true, seq: this.cursor ?? 0 });
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = silent();
        this.#take(parser.push(value));
      }
    } catch {
      // Closed by us, by the server or by the network: all the same, it is opened again.
    } finally {
      clearTimeout(timer);
    }
  }

  #take(frames: ReturnType<Parser['push']>): void {
    let changes: Change[] = [];
    const flush = () => {
      if (changes.length) this.#tell({ kind: 'changes', changes, seq: this.cursor ?? 0 });
      changes = [];
    };
    for (const frame of frames) {
      if (frame.id) this.cursor = Number(frame.id);
      if (frame.event === 'change') changes.push(JSON.parse(frame.data) as Change);
      else if (frame.event === 'show') (flush(), this.#tell({ kind: 'show', show: JSON.parse(frame.data) as Show }));
      else if (frame.event === 'reset') (flush(), this.#tell({ kind: 'reset', seq: this.cursor ?? 0 }));
    }
    flush();
  }
}
