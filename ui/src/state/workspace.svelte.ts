// One workspace as its header and tabs see it.
import { ancestors } from '~/api/paths';
import { changes, info, workspace, type ChangedPath, type StatusPart } from '~/api/workspaces';
import type { Change } from '~/live/events';
import { live } from '~/live/live.svelte';
import { overviewState } from './overview.svelte';
import { Resource, throttled } from './resource.svelte';

const GAP = 1000;

/** Without directories that only came with what is in them. */
export function worthShowing<T extends Pick<ChangedPath, 'path' | 'type'>>(changes: T[]): T[] {
  const above = new Set(changes.flatMap((change) => ancestors(change.path).slice(0, -1)));
  return changes.filter((change) => change.type !== 'dir' || !above.has(change.path));
}

export class WorkspaceState {
  workspace = new Resource((signal) => workspace(this.id, signal));
  info = new Resource((signal) => info(this.id, signal));
  status = new Resource<StatusPart>((signal) => changes(this.id, undefined, signal));
  /** It was completed or deleted while it was looked at. */
  gone = $state(false);

  constructor(readonly id: string) {}

  /** How many paths differ; those of further pages are counted as the server does. */
  get changed(): number | undefined {
    const status = this.status.data;
    if (!status) return undefined;
    return status.next ? status.total.changes : worthShowing(status.changes).length;
  }

  get fork() {
    return overviewState.fork(this.id);
  }

  /** Who works in it: what outside programs do in a fork is done for its agent. */
  get agent(): string | null {
    return this.fork?.agent ?? null;
  }

  follow(): () => void {
    this.load();
    return live.on({ changes: (all) => this.#apply(all), reset: () => this.load() });
  }

  load = (): void => {
    void this.workspace.load();
    void this.status.load();
  };

  #again = throttled(() => {
    this.load();
    if (this.info.data) void this.info.load();
  }, GAP);

  #apply(all: Change[]): void {
    const mine = all.filter((change) => change.workspace === this.id || (change.op === 'merge' && change.project === this.fork?.project));
    if (!mine.length) return;
    if (mine.some((change) => change.workspace === this.id && change.op === 'workspace_delete')) this.gone = true;
    else this.#again();
  }
}
