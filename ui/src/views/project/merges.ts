// What became of a merge, in one word.
import type { Merge } from '~/api/projects';

export function stateOf(merge: Pick<Merge, 'undone_by' | 'conflicts' | 'snapshot' | 'merged'>): 'Landed' | 'Part' | 'Waiting' | 'Undone' | 'Nothing' {
  if (merge.undone_by) return 'Undone';
  if (merge.conflicts.length) return merge.snapshot && merge.merged.length ? 'Part' : 'Waiting';
  return merge.snapshot ? 'Landed' : 'Nothing';
}
