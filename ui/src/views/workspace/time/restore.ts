// Going back to what was, and back again.
import { read, removePath, write, type Moment } from '~/api/files';
import type { Problem } from '~/api/errors';
import { nameOf } from '~/api/paths';
import { restore } from '~/api/workspaces';
import { t } from '~/text/t.svelte';
import { toasts } from '~/ui/toasts.svelte';

/** More than this is not copied through the browser. */
const MOST = 100_000_000;

const fail = (problem: Problem) => void toasts.fail(t('time.restoreFailed'), problem);
const undo = (run: () => Promise<Problem | null>) => ({
  title: t('ui.undo'),
  run: () => void run().then((problem) => (problem ? toasts.fail(t('time.undoFailed'), problem) : toasts.say(t('time.back')))),
});

/** The whole, or one path, from a snapshot. The server keeps the present state as a snapshot first. */
export async function restoreSnapshot(workspace: string, snapshot: string, path: string | undefined, what: string): Promise<boolean> {
  const answer = await restore(workspace, snapshot, path);
  if (!answer.ok) return fail(answer.problem), false;
  const { kept_snapshot: kept, changes } = answer.data;
  const text = path ? t('time.restoredFile', { name: nameOf(path), what }) : t('time.restored', { what, n: changes.length });
  toasts.say(text, kept ? undo(async () => {
    const back = await restore(workspace, kept, path);
    return back.ok ? null : back.problem;
  }) : undefined);
  return true;
}

/** One file as it was at a version, which only its content can bring back. */
export async function restoreVersion(workspace: string, path: string, version: number, what: string): Promise<boolean> {
  const set = async (moment: Moment): Promise<Problem | null> => {
    const was = await read(workspace, path, MOST, undefined, moment);
    const gone = !was.ok && was.problem.code === 'file_not_found';
    if (!was.ok && !gone) return was.problem;
    const done = was.ok ? await write(workspace, path, was.data.bytes) : await removePath(workspace, path, false);
    return done.ok ? null : done.problem;
  };
  const now = await read(workspace, path, MOST);
  if (!now.ok && now.problem.code !== 'file_not_found') return fail(now.problem), false;
  const problem = await set({ version });
  if (problem) return fail(problem), false;
  toasts.say(t('time.restoredFile', { name: nameOf(path), what }), undo(async () => {
    const back = now.ok ? await write(workspace, path, now.data.bytes) : await removePath(workspace, path, false);
    return back.ok ? null : back.problem;
  }));
  return true;
}
