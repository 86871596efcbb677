// Pure: what changes do to a list of a directory and to a tree of directories.
import { dirOf, nameOf } from '~/api/paths';
import type { DirNode, ListEntry } from '~/api/workspaces';
import { whoOf, type Change } from './events';

/** Above so many changes in one directory at once a single new read is cheaper. */
export const MANY = 50;

const REREAD = new Set(['restore', 'workspace_update', 'update', 'import', 'workspace_clean']);

/** Whether changes of this kind say less than what changed. */
export const needsReading = (changes: Change[]) => changes.some((change) => REREAD.has(change.op));

export interface Patch {
  entries: ListEntry[];
  /** Paths that came or changed, to glow. */
  touched: string[];
  added: number;
}

function entryOf(change: Change, was: ListEntry | undefined): ListEntry {
  return {
    name: nameOf(change.path),
    path: change.path,
    type: (change.type as ListEntry['type']) ?? was?.type ?? 'file',
    size: change.size ?? was?.size ?? 0,
    modified_at: change.at,
    mime_type: change.mime_type ?? was?.mime_type ?? null,
    operator: whoOf(change),
  };
}

/** Entries of `dir` after changes; null if they do not concern it. `compare` keeps the order. */
export function patchEntries(
  entries: ListEntry[],
  changes: Change[],
  dir: string,
  compare: (a: ListEntry, b: ListEntry) => number,
  isWithin: (entry: ListEntry) => boolean = () => true,
): Patch | null {
  const touched = new Set<string>();
  let next: ListEntry[] | null = null;
  let added = 0;
  const drop = (path: string) => {
    next ??= entries.slice();
    const at = next.findIndex((entry) => entry.path === path);
    if (at < 0) return undefined;
    touched.delete(path);
    return next.splice(at, 1)[0];
  };
  for (const change of changes) {
    const from = change.op === 'move' ? (change.from ?? null) : null;
    const left = from !== null && dirOf(from) === dir ? drop(from) : undefined;
    if (!change.path || dirOf(change.path) !== dir) continue;
    if (change.op === 'delete') {
      drop(change.path);
      continue;
    }
    const was = drop(change.path) ?? left;
    const entry = entryOf(change, was);
    if (!isWithin(entry)) continue;
    const list: ListEntry[] = (next ??= entries.slice());
    let low = 0;
    for (let high = list.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (compare(list[middle]!, entry) < 0) low = middle + 1;
      else high = middle;
    }
    list.splice(low, 0, entry);
    touched.add(change.path);
    if (!was) added += 1;
  }
  return next && { entries: next, touched: [...touched], added };
}

/** A tree of directories after changes; the same object if none concerns it. */
export function patchTree(root: DirNode, changes: Change[]): DirNode {
  let next = root;
  for (const change of changes) {
    if (change.type !== 'dir') continue;
    if (change.op === 'delete') next = without(next, change.path);
    if (change.op === 'mkdir') next = withDir(next, change.path);
  }
  return next;
}

function without(node: DirNode, path: string): DirNode {
  const children = node.children.filter((child) => child.path !== path);
  if (children.length < node.children.length) return { ...node, children };
  const at = children.findIndex((child) => path.startsWith(`${child.path}/`));
  if (at < 0) return node;
  children[at] = without(children[at]!, path);
  return { ...node, children };
}

function withDir(node: DirNode, path: string): DirNode {
  if (dirOf(path) === node.path) {
    if (node.children.some((child) => child.path === path)) return node;
    const children = [...node.children, { name: nameOf(path), path, children: [] }];
    children.sort((a, b) => (a.name < b.name ? -1 : 1));
    return { ...node, children };
  }
  const at = node.children.findIndex((child) => path.startsWith(`${child.path}/`));
  if (at < 0) return node;
  const children = node.children.slice();
  children[at] = withDir(children[at]!, path);
  return { ...node, children };
}
