// Saving an archive or a file.
import { archiveAddress } from '~/api/workspaces';

function follow(href: string, name: string): void {
  const link = document.createElement('a');
  link.href = href;
  link.download = name;
  link.click();
}

export function saveBlob(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  follow(url, name);
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function download(workspace: string, path: string, format: 'zip' | 'tar.gz'): void {
  follow(archiveAddress(workspace, path, format), `${path.split('/').at(-1) || workspace}.${format}`);
}
