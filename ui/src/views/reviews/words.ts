// What the server's words are called here.
import type { PartChoice, Review } from '~/api/reviews';
import { t, type Key } from '~/text/t.svelte';

const KINDS: Record<string, Key> = {
  both_changed: 'review.kindBothChanged', both_added: 'review.kindBothAdded',
  removed_by_ours: 'review.kindRemovedByOurs', removed_by_theirs: 'review.kindRemovedByTheirs',
  types_differ: 'review.kindTypesDiffer', file_or_directory: 'review.kindFileOrDirectory',
  both_renamed: 'review.kindBothRenamed', modes_differ: 'review.kindModesDiffer',
  directory_renamed: 'review.kindDirectoryRenamed', protected: 'review.kindProtected',
};

/** A kind that a newer server has is shown as it says it. */
export const kindOf = (kind: string) => (KINDS[kind] ? t(KINDS[kind]) : kind.replaceAll('_', ' '));

const TAKE: Record<PartChoice, Key> = { ours: 'review.takeOurs', theirs: 'review.takeTheirs', base: 'review.takeBase', union: 'review.takeUnion' };
const NAMES: Record<PartChoice, Key> = { ours: 'review.ours', theirs: 'review.theirs', base: 'review.base', union: 'review.union' };
export const takeOf = (choice: PartChoice) => t(TAKE[choice]);
export const nameOfChoice = (choice: string) => (choice in NAMES ? t(NAMES[choice as PartChoice]) : choice);

export const whoOf = (one: Review['ours_by']) => one?.claim ?? one?.operator ?? null;
/** Whose ours is; unknown once the file has changed since the conflict was found. */
export const oursBy = (review: Review) => (review.changed_since ? null : review.ours_by);
/** The agent that theirs are from; its workspace has its name unless it has several. */
export const agentOf = (review: Review) => whoOf(review.theirs_by) ?? review.workspace;
