// Saving a directory as an archive, which the browser fetches by itself.
import { ticket } from '~/api/me';
import { archiveAddress } from '~/api/workspaces';
import { t } from '~/text/t.svelte';
import { follow } from '~/ui/save';
import { toasts } from '~/ui/toasts.svelte';

export async function download(workspace: string, path: string, format: 'zip' | 'tar.gz'): Promise<void> {
  const name = `${path.split('/').at(-1) || workspace}.${format}`;
  const address = await ticket(archiveAddress(workspace, path, format));
  if (address.ok) follow(address.data, name);
  else toasts.fail(t('files.notSaved', { name }), address.problem);
}
