// Saving an archive or a file: the browser does it by itself, unless a token has to come along.
import { usesToken } from '~/api/session';
import { archive, archiveAddress } from '~/api/workspaces';
import { t } from '~/text/t.svelte';
import { follow, saveBlob } from '~/ui/save';
import { toasts } from '~/ui/toasts.svelte';

export async function download(workspace: string, path: string, format: 'zip' | 'tar.gz'): Promise<void> {
  const name = `${path.split('/').at(-1) || workspace}.${format}`;
  if (!usesToken()) return follow(archiveAddress(workspace, path, format), name);
  const answer = await archive(workspace, path, format);
  if (answer.ok) saveBlob(answer.data, name);
  else toasts.fail(t('ws.downloadFailed'), answer.problem);
}
