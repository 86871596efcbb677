// The sizes of what a workspace holds, three levels deep and bounded: the server has no route for it, so
// each directory is listed.
import type { Problem, Result } from '~/api/errors';
import type { Schemas } from '~/api/client';

const DEPTH = 3;
const DIRS = 60;

export interface Measured {
  name: string;
  path: string;
  size: number;
  isDir: boolean;
  children: Measured[];
}

type List = (path: string, after?: string) => Promise<Result<Schemas['Listing']>>;

export class Measurement {
  root = $state.raw<Measured | null>(null);
  problem = $state.raw<Problem | null>(null);
  isCut = $state(false);
}

/** Walks directories until enough are known; two pages of each. */
export function measure(list: List): Measurement {
  const found = new Measurement();
  let left = DIRS;
  const walk = async (node: Measured, depth: number): Promise<void> => {
    if (depth > DEPTH || left-- <= 0) return void (found.isCut = true);
    const first = await list(node.path);
    if (!first.ok) return void (found.problem = first.problem);
    const entries = first.data.entries;
    const second = first.data.next ? await list(node.path, first.data.next) : null;
    if (second?.ok) entries.push(...second.data.entries);
    if (second?.ok && second.data.next) found.isCut = true;
    node.children = entries.map((entry) => ({ name: entry.name, path: entry.path, size: entry.size, isDir: entry.type === 'dir', children: [] }));
    for (const child of node.children) if (child.isDir) await walk(child, depth + 1);
  };
  const root: Measured = { name: '', path: '', size: 0, isDir: true, children: [] };
  void walk(root, 1).then(() => (found.root = root));
  return found;
}
