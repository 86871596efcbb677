// A snapshot of a project beside the one before it.
import { differenceOf, readOf } from '~/api/project';
import { Comparison, orNone, WHOLE, type Read } from '~/state/comparison.svelte';

export function broughtBy(project: string, snapshot: string): Comparison {
  const side = (when: () => string | null | undefined): Read => (path, signal) => {
    const at = when();
    return at ? orNone(readOf(project, path, WHOLE, { at }, signal)) : Promise.resolve({ ok: true, data: null, headers: new Headers() });
  };
  // The server says which one it is; the first snapshot has none before it.
  const made: Comparison = new Comparison(`${project} ${snapshot}`, (query, signal) => differenceOf(project, { to: snapshot, ...query }, signal), side(() => made.names.data?.from), side(() => snapshot));
  return made;
}
