// Two states beside each other: the names of what differs first, the lines of a file when somebody
// looks at it.
import type { Result } from '~/api/errors';
import type { Content } from '~/api/files';
import type { Difference } from '~/api/time';
import type { FileDifference } from '~/api/workspaces';
import { SvelteMap } from 'svelte/reactivity';
import type { Change } from '~/live/events';
import { live } from '~/live/live.svelte';
import { Resource, throttled } from './resource.svelte';
import { worthShowing } from './workspace.svelte';

/** More than this is not put side by side. */
export const WHOLE = 1_000_000;

const GAP = 1000;

export type Ask = (query: { path?: string; name_only?: boolean }, signal?: AbortSignal) => Promise<Result<Difference>>;
/** One side of a file; null if it is not there. */
export type Read = (path: string, signal?: AbortSignal) => Promise<Result<Content | null>>;

/** A file that is not there is no error where two states are compared. */
export async function orNone(answer: Promise<Result<Content>>): Promise<Result<Content | null>> {
  const found = await answer;
  if (found.ok || found.problem.code !== 'file_not_found') return found;
  return { ok: true, data: null, headers: new Headers() };
}

export class Comparison {
  names: Resource<Difference>;
  /** What is known of the lines, by path. */
  details = new SvelteMap<string, FileDifference>();

  /** Without `left` and `right` only hunks can be shown. */
  constructor(readonly key: string, readonly ask: Ask, readonly left: Read | null, readonly right: Read | null) {
    this.names = new Resource((signal) => ask({ name_only: true }, signal));
  }

  files = $derived.by(() => (this.names.data ? worthShowing(this.names.data.changes) : null));

  /** Reads the names, and again when `isOurs` says that a change concerns them. */
  follow(isOurs: (change: Change) => boolean): () => void {
    void this.names.load();
    const again = throttled(() => void this.names.load(), GAP);
    const stop = live.on({ changes: (changes) => { if (changes.some(isOurs)) again(); }, reset: () => void this.names.load() });
    return () => {
      stop();
      this.names.stop();
    };
  }

  async detail(path: string, signal?: AbortSignal): Promise<Result<FileDifference | null>> {
    const answer = await this.ask({ path }, signal);
    if (!answer.ok) return answer;
    const found = answer.data.changes.find((one) => one.path === path) ?? null;
    if (found) this.details.set(path, found);
    return { ...answer, data: found };
  }
}
