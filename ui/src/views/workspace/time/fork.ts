// A new workspace that begins with a snapshot of this one.
import { forkProject } from '~/api/project';
import { workspaceFrom } from '~/api/time';
import { removeWorkspace } from '~/api/workspaces';
import { links } from '~/app/links';
import { go } from '~/app/router.svelte';
import { overviewState } from '~/state/overview.svelte';
import type { WorkspaceState } from '~/state/workspace.svelte';
import { t } from '~/text/t.svelte';
import { toasts } from '~/ui/toasts.svelte';

/** Of a fork another fork of the project with the work in it; else a workspace of its own. */
export async function forkHere(space: WorkspaceState, snapshot: string, what: string): Promise<void> {
  const answer = space.fork ? await forkProject(space.fork.project, { base: snapshot }) : await workspaceFrom(snapshot);
  if (!answer.ok) return void toasts.fail(t('time.forkFailed'), answer.problem);
  const made = 'workspaces' in answer.data ? answer.data.workspaces[0] : answer.data;
  if (!made) return;
  const back = links.time(space.id);
  toasts.say(t('time.forked', { name: made.id, what }), {
    title: t('ui.undo'),
    run: () => void removeWorkspace(made.id).then((gone) => (gone.ok ? go(back) : toasts.fail(t('time.undoFailed'), gone.problem))),
  });
  void overviewState.load();
  go(links.workspace(made.id));
}
