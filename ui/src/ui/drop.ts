// The files of a drop, with those in dropped folders.

export interface Dropped {
  file: File;
  path: string;
}

async function walk(entry: FileSystemEntry, above: string, found: Dropped[]): Promise<void> {
  const path = above ? `${above}/${entry.name}` : entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    found.push({ file, path });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  // A reader gives a hundred at a time, and none at the end.
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return;
    for (const one of some) await walk(one, path, found);
  }
}

export async function droppedFiles(transfer: DataTransfer): Promise<Dropped[]> {
  // Entries must be taken before the first wait: the transfer is emptied after the event.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: file.name }));
  const found: Dropped[] = [];
  for (const entry of entries) await walk(entry, '', found);
  return found;
}

export const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') ?? false;
