// Saving a directory as an archive, which the browser fetches by itself.
import { archiveAddress } from '~/api/workspaces';
import { follow } from '~/ui/save';

export function download(workspace: string, path: string, format: 'zip' | 'tar.gz'): void {
  follow(archiveAddress(workspace, path, format), `${path.split('/').at(-1) || workspace}.${format}`);
}
