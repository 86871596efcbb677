// What is done to entries of a directory: shown at once, taken back if the server refuses, undone
// for a while by the toast.
import type { Problem } from '~/api/errors';
import { makeDir, move, readVersion, removePath, write } from '~/api/files';
import { dirOf, join, nameOf } from '~/api/paths';
import { restore as askRestore, takeSnapshot, type ListEntry } from '~/api/workspaces';
import type { Listing } from '~/state/listing.svelte';
import { t } from '~/text/t.svelte';
import { toasts } from '~/ui/toasts.svelte';

const undo = (run: () => void) => ({ title: t('ui.undo'), run });

/** Brings a file back that was deleted at a version, as it was at the one before. */
async function bringBack(workspace: string, path: string, deletedAt: number): Promise<Problem | null> {
  const content = await readVersion(workspace, path, deletedAt - 1);
  if (!content.ok) return content.problem;
  const written = await write(workspace, path, content.data, { absent: true });
  return written.ok ? null : written.problem;
}

export async function deleteEntries(listing: Listing, entries: ListEntry[]): Promise<void> {
  const { workspace } = listing;
  const paths = new Set(entries.map((entry) => entry.path));
  const back = listing.optimistic((all) => all.filter((entry) => !paths.has(entry.path)));
  // A directory comes back from a snapshot, a file from the version before.
  const hasDir = entries.some((entry) => entry.type === 'dir');
  const kept = hasDir ? await takeSnapshot(workspace, `before deleting ${nameOf(entries[0]!.path)}`) : null;
  const failed = (problem: Problem, entry: ListEntry) => {
    back();
    void listing.load();
    toasts.fail(t('files.failed', { name: entry.name }), problem);
  };
  if (kept && !kept.ok) return failed(kept.problem, entries[0]!);
  const gone: { entry: ListEntry; version: number }[] = [];
  for (const entry of entries) {
    const answer = await removePath(workspace, entry.path, entry.type === 'dir');
    if (!answer.ok) return failed(answer.problem, entry);
    gone.push({ entry, version: answer.data.version });
  }
  const one = entries.length === 1 ? entries[0]! : null;
  const text = one ? t('files.deleted', { name: one.name }) : t('files.deletedMany', { n: entries.length });
  toasts.say(text, undo(async () => {
    for (const { entry, version } of gone) {
      const problem = kept?.ok ? await restore(workspace, kept.data.id, entry.path) : await bringBack(workspace, entry.path, version);
      if (problem) return void toasts.fail(t('files.undoFailed', { name: entry.name }), problem);
    }
    toasts.say(t('files.restored', { name: one?.name ?? `${entries.length}` }));
    void listing.load();
  }));
}

async function restore(workspace: string, snapshot: string, path: string): Promise<Problem | null> {
  const answer = await askRestore(workspace, snapshot, path);
  return answer.ok ? null : answer.problem;
}

/** `to` is a name, or a path from the top if it has a slash. */
export async function renameEntry(listing: Listing, entry: ListEntry, to: string): Promise<string | null> {
  const target = to.includes('/') ? to.replace(/^\/+|\/+$/g, '') : join(dirOf(entry.path), to);
  if (target === entry.path || !nameOf(target)) return null;
  const stays = dirOf(target) === listing.path;
  const back = listing.optimistic((all) => all.flatMap((one) => (one.path !== entry.path ? [one] : stays ? [{ ...one, name: nameOf(target), path: target }] : [])));
  const answer = await move(listing.workspace, entry.path, target);
  if (!answer.ok) {
    back();
    toasts.fail(t('files.failed', { name: entry.name }), answer.problem);
    return null;
  }
  toasts.say(t('files.renamed', { from: entry.name, to: stays ? nameOf(target) : target }), undo(async () => {
    const again = await move(listing.workspace, target, entry.path);
    if (!again.ok) toasts.fail(t('files.undoFailed', { name: entry.name }), again.problem);
  }));
  return target;
}

export async function createEntry(listing: Listing, kind: 'file' | 'dir', name: string): Promise<Problem | string> {
  const path = join(listing.path, name.replace(/^\/+|\/+$/g, ''));
  const answer = kind === 'dir' ? await makeDir(listing.workspace, path) : await write(listing.workspace, path, '', { absent: true });
  return answer.ok ? path : answer.problem;
}
