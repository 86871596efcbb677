// What happened in a workspace, or to one file of it, with its snapshots; events add to it.
import type { Problem } from '~/api/errors';
import { snapshots, type Snapshot } from '~/api/time';
import { history, type HistoryLine } from '~/api/workspaces';
import type { Change } from '~/live/events';
import { live } from '~/live/live.svelte';
import { Resource, throttled } from './resource.svelte';

/** Lines that are read at once; the server has no pages here, so more means reading again. */
const FIRST = 500;
const MORE = 4;
const SNAPSHOTS = 1000;

export class HistoryState {
  lines = $state.raw<HistoryLine[] | null>(null);
  #limit = FIRST;
  #read = new Resource((signal) => history(this.workspace, { limit: this.#limit, ...(this.path && { path: this.path }) }, signal));
  #kept = new Resource((signal) => snapshots(this.workspace, SNAPSHOTS, signal));
  hasMore = $state(false);

  constructor(readonly workspace: string, readonly path: string) {}

  get snapshots(): Snapshot[] | null {
    return this.#kept.data?.snapshots ?? null;
  }
  get problem(): Problem | null {
    return this.#read.problem ?? this.#kept.problem;
  }
  get loading(): boolean {
    return this.#read.loading;
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
    this.hasMore = found.length >= this.#limit;
  };

  more = async (): Promise<void> => {
    if (!this.hasMore || this.#read.loading) return;
    this.#limit *= MORE;
    await this.load();
  };

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
