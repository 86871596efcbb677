// One project: its settings, its snapshots page by page, and its last merges.
import type { Problem } from '~/api/errors';
import { mergesOf, project, snapshotsOf } from '~/api/project';
import type { Merge } from '~/api/projects';
import type { Snapshot } from '~/api/time';
import type { Change } from '~/live/events';
import { live } from '~/live/live.svelte';
import { overviewState } from './overview.svelte';
import { Resource, throttled } from './resource.svelte';

const GAP = 1000;

/** A list that the server gives page by page, the newest first. */
export class Paged<T> {
  items = $state.raw<T[] | null>(null);
  problem = $state.raw<Problem | null>(null);
  hasMore = $state(false);
  loading = $state(false);

  constructor(
    readonly page: number,
    readonly read: (limit: number, after: string | undefined) => Promise<{ ok: true; data: T[] } | { ok: false; problem: Problem }>,
    readonly idOf: (item: T) => string,
  ) {}

  /** As many as are shown already, from the newest. */
  load = async (): Promise<void> => {
    await live.ready;
    const limit = Math.max(this.page, this.items?.length ?? 0);
    const answer = await this.read(limit, undefined);
    if (!answer.ok) return void (this.problem = answer.problem);
    this.problem = null;
    this.items = answer.data;
    this.hasMore = answer.data.length >= limit;
  };

  more = async (): Promise<void> => {
    const last = this.items?.at(-1);
    if (!last || !this.hasMore || this.loading) return;
    this.loading = true;
    const answer = await this.read(this.page, this.idOf(last));
    this.loading = false;
    if (!answer.ok) return void (this.problem = answer.problem);
    this.items = [...(this.items ?? []), ...answer.data];
    this.hasMore = answer.data.length >= this.page;
  };
}

export class ProjectState {
  project = new Resource((signal) => project(this.name, signal));
  snapshots = new Paged<Snapshot>(50, async (limit, after) => {
    const answer = await snapshotsOf(this.name, limit, after);
    return answer.ok ? { ok: true, data: answer.data.snapshots } : answer;
  }, (snapshot) => snapshot.id);
  merges = new Paged<Merge>(50, async (limit, after) => {
    const answer = await mergesOf(this.name, limit, after);
    return answer.ok ? { ok: true, data: answer.data.merges } : answer;
  }, (merge) => merge.merge_id ?? '');

  constructor(readonly name: string) {}

  get forks() {
    return overviewState.forks.filter((fork) => fork.project === this.name);
  }
  get overview() {
    return overviewState.projects.find((one) => one.name === this.name);
  }
  /** What brought a snapshot, if it was a merge. */
  mergeOf(snapshot: string): Merge | undefined {
    return this.merges.items?.find((merge) => merge.snapshot === snapshot);
  }

  follow(): () => void {
    this.load();
    return live.on({ changes: (changes) => this.#apply(changes), reset: () => this.load() });
  }

  load = (): void => {
    void this.project.load();
    void this.snapshots.load();
    void this.merges.load();
  };

  #again = throttled(() => this.load(), GAP);

  /** What happens in a fork changes the project only when it lands. */
  #apply(changes: Change[]): void {
    if (changes.some((change) => change.project === this.name && (!change.workspace || change.op === 'merge'))) this.#again();
  }
}
