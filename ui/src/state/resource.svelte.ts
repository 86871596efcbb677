// Something that is read from the server: its value, what went wrong, and whether it is on its way.
import { ABORTED, type Problem, type Result } from '~/api/errors';
import { live } from '~/live/live.svelte';

export class Resource<T> {
  data = $state.raw<T | null>(null);
  problem = $state.raw<Problem | null>(null);
  loading = $state(false);
  #abort: AbortController | null = null;
  #read: (signal: AbortSignal) => Promise<Result<T>>;

  constructor(read: (signal: AbortSignal) => Promise<Result<T>>) {
    this.#read = read;
  }

  /** Reads anew. A read under way is given up; the value stays until the new one is there. */
  load = async (): Promise<void> => {
    this.#abort?.abort();
    const abort = (this.#abort = new AbortController());
    this.loading = true;
    await live.ready;
    const answer = await this.#read(abort.signal);
    if (this.#abort !== abort) return;
    this.loading = false;
    if (answer.ok) {
      this.data = answer.data;
      this.problem = null;
    } else if (answer.problem.code !== ABORTED) {
      this.problem = answer.problem;
    }
  };

  stop(): void {
    this.#abort?.abort();
    this.#abort = null;
    this.loading = false;
  }
}

/** Calls at most once in `gap` ms, and once more if asked meanwhile. */
export function throttled(call: () => void, gap: number): () => void {
  let timer: ReturnType<typeof setTimeout> | null = null;
  let again = false;
  const run = () => {
    again = false;
    call();
    timer = setTimeout(() => {
      timer = null;
      if (again) run();
    }, gap);
  };
  return () => (timer ? void (again = true) : run());
}
