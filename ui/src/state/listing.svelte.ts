// One directory of a workspace: page by page, kept up to date by events.
import { ABORTED, type Problem } from '~/api/errors';
import { list, type ListEntry, type Sort } from '~/api/workspaces';
import { MANY, needsReading, patchEntries } from '~/live/apply';
import type { Change } from '~/live/events';
import { live } from '~/live/live.svelte';
import { throttled } from './resource.svelte';

/** As many as are read without being asked for; the rest comes with scrolling. */
const AHEAD = 5000;
const GLOW = 1500;

/** The order of the server: directories first, names by their bytes. */
export function comparison(sort: Sort, descending: boolean): (a: ListEntry, b: ListEntry) => number {
  const sign = descending ? -1 : 1;
  const byName = (a: ListEntry, b: ListEntry) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
  return (a, b) => {
    const dirs = Number(b.type === 'dir') - Number(a.type === 'dir');
    if (dirs) return dirs;
    if (sort === 'size' && a.size !== b.size) return sign * (a.size - b.size);
    if (sort === 'modified' && a.modified_at !== b.modified_at) return sign * (a.modified_at < b.modified_at ? -1 : 1);
    return sign * byName(a, b);
  };
}

export class Listing {
  entries = $state.raw<ListEntry[] | null>(null);
  problem = $state.raw<Problem | null>(null);
  loading = $state(false);
  glowing = $state.raw<ReadonlySet<string>>(new Set());
  /** So many changed at once that they were not shown one by one. */
  burst = $state(0);
  #next: string | null = null;
  #abort: AbortController | null = null;
  #compare: (a: ListEntry, b: ListEntry) => number;

  constructor(readonly workspace: string, readonly path: string, readonly sort: Sort, readonly descending: boolean) {
    this.#compare = comparison(sort, descending);
  }

  get hasMore(): boolean {
    return this.#next !== null;
  }

  follow(): () => void {
    const stop = live.on({ changes: (changes) => this.apply(changes), reset: () => void this.load() });
    void this.load();
    return () => {
      stop();
      this.#abort?.abort();
    };
  }

  load = async (): Promise<void> => {
    this.#abort?.abort();
    const { signal } = (this.#abort = new AbortController());
    this.loading = true;
    await live.ready;
    const found: ListEntry[] = [];
    let after: string | undefined;
    do {
      const answer = await list(this.workspace, { path: this.path, sort: this.sort, descending: this.descending, after }, signal);
      if (signal.aborted) return;
      if (!answer.ok) {
        this.loading = false;
        if (answer.problem.code !== ABORTED) this.problem = answer.problem;
        return;
      }
      found.push(...answer.data.entries);
      this.#next = answer.data.next ?? null;
      after = answer.data.next ?? undefined;
      // The first page shows at once, unless a longer list is there already.
      if (found.length >= (this.entries?.length ?? 0) || !after) this.entries = found.slice();
      this.problem = null;
    } while (after && found.length < Math.max(AHEAD, this.entries?.length ?? 0));
    this.loading = false;
  };

  /** The next page, if there is one. */
  more = async (): Promise<void> => {
    if (!this.#next || this.loading || !this.entries) return;
    this.loading = true;
    const { signal } = (this.#abort = new AbortController());
    const answer = await list(this.workspace, { path: this.path, sort: this.sort, descending: this.descending, after: this.#next }, signal);
    if (signal.aborted) return;
    this.loading = false;
    if (!answer.ok) return;
    this.#next = answer.data.next ?? null;
    // What changed meanwhile may come again. The page is what is held, not all that is shown.
    const fresh = new Map(answer.data.entries.map((entry) => [entry.path, entry]));
    for (const { path } of this.entries) fresh.delete(path);
    this.entries = this.entries.concat([...fresh.values()]);
  };

  #again = throttled(() => void this.load(), 1000);

  apply(changes: Change[]): void {
    const mine = changes.filter((change) => change.workspace === this.workspace);
    if (!mine.length) return;
    if (needsReading(mine)) return this.#again();
    if (!this.entries) return;
    const last = this.entries.at(-1);
    const isWithin = (entry: ListEntry) => !this.#next || !last || this.#compare(entry, last) <= 0;
    const patch = patchEntries(this.entries, mine, this.path, this.#compare, isWithin);
    if (!patch) return;
    if (patch.touched.length > MANY) {
      this.burst = patch.touched.length;
      setTimeout(() => (this.burst = 0), 4000);
      return this.#again();
    }
    this.entries = patch.entries;
    this.glow(patch.touched);
  }

  glow(paths: string[]): void {
    if (!paths.length) return;
    this.glowing = new Set([...this.glowing, ...paths]);
    setTimeout(() => (this.glowing = new Set([...this.glowing].filter((path) => !paths.includes(path)))), GLOW);
  }

  /** Shows a change before the server has answered; the returned function takes it back. */
  optimistic(change: (entries: ListEntry[]) => ListEntry[]): () => void {
    const before = this.entries;
    if (!before) return () => {};
    this.entries = change(before).toSorted(this.#compare);
    return () => (this.entries = before);
  }
}
