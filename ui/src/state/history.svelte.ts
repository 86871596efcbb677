// What happened in a workspace, or to one file of it, with its snapshots; events add to it.
import type { Problem } from '~/api/errors';
import { snapshots, type Snapshot } from '~/api/time';
import { history, type HistoryLine } from '~/api/workspaces';
import type { Change } from '~/live/events';
import { live } from '~/live/live.svelte';
import { Resource, throttled } from './resource.svelte';

/** Lines of a page. */
const PAGE = 500;
const SNAPSHOTS = 1000;

export class HistoryState {
  lines = $state.raw<HistoryLine[] | null>(null);
  /** Where the next page begins; none if all is here. */
  #next = $state<number | null>(null);
  #read = new Resource((signal) => this.#page(undefined, signal));
  #kept = new Resource((signal) => snapshots(this.workspace, SNAPSHOTS, signal));
  #reading = $state(false);

  constructor(readonly workspace: string, readonly path: string) {}

  get snapshots(): Snapshot[] | null {
    return this.#kept.data?.snapshots ?? null;
  }
  get problem(): Problem | null {
    return this.#read.problem ?? this.#kept.problem;
  }
  get loading(): boolean {
    return this.#read.loading || this.#reading;
  }
  get hasMore(): boolean {
    return this.#next !== null;
  }

  follow(): () => void {
    void this.load();
    return live.on({ changes: (changes) => this.#apply(changes), reset: () => void this.load() });
  }

  load = async (): Promise<void> => {
    await Promise.all([this.#read.load(), this.#kept.load()]);
    const found = this.#read.data?.history;
    if (!found) return;
    this.lines = found;
    this.#next = this.#read.data?.next ?? null;
  };

  more = async (): Promise<void> => {
    if (this.#next === null || this.loading) return;
    this.#reading = true;
    const answer = await this.#page(this.#next);
    this.#reading = false;
    if (!answer.ok || !this.lines) return;
    this.lines = [...this.lines, ...answer.data.history];
    this.#next = answer.data.next ?? null;
  };

  #page(after?: number, signal?: AbortSignal) {
    return history(this.workspace, { limit: PAGE, ...(this.path && { path: this.path }), ...(after !== undefined && { after }) }, signal);
  }

  #again = throttled(() => void this.#kept.load(), 500);

  #apply(changes: Change[]): void {
    const mine = changes.filter((change) => change.workspace === this.workspace);
    if (!mine.length || !this.lines) return;
    const seen = this.lines[0]?.seq ?? 0;
    const isOurs = (change: Change) => change.seq > seen && (!this.path || change.path === this.path || change.from === this.path);
    const fresh = mine.filter(isOurs).sort((a, b) => b.seq - a.seq);
    if (fresh.length) this.lines = [...fresh, ...this.lines];
    if (mine.some((change) => !change.path)) this.#again();
  }
}
