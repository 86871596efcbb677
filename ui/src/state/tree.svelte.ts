// The directories of a workspace, two levels at a time, kept up to date by events.
import { SvelteSet } from 'svelte/reactivity';
import { ancestors } from '~/api/paths';
import type { Problem } from '~/api/errors';
import { tree, type DirNode } from '~/api/workspaces';
import { needsReading, patchTree } from '~/live/apply';
import type { Change } from '~/live/events';
import { live } from '~/live/live.svelte';

/** The shown level and the one below it, which says whether there is something to open. */
const DEPTH = 2;

function graft(node: DirNode, part: DirNode): DirNode {
  if (node.path === part.path) return { ...node, children: part.children };
  return {
    ...node,
    children: node.children.map((child) => (child.path === part.path || part.path.startsWith(`${child.path}/`) ? graft(child, part) : child)),
  };
}

export class Tree {
  root = $state.raw<DirNode | null>(null);
  problem = $state.raw<Problem | null>(null);
  open = new SvelteSet<string>();
  /** Directories whose children were read. */
  #read = new SvelteSet<string>();

  constructor(readonly workspace: string) {}

  isRead(path: string): boolean {
    return this.#read.has(path);
  }

  follow(): () => void {
    void this.load();
    return live.on({ changes: (changes) => this.apply(changes), reset: () => void this.load() });
  }

  load = async (): Promise<void> => {
    await live.ready;
    const answer = await tree(this.workspace, '', DEPTH);
    if (!answer.ok) return void (this.problem = answer.problem);
    this.problem = null;
    this.#read.clear();
    this.root = answer.data;
    this.#note(answer.data, DEPTH);
    for (const path of [...this.open].sort()) await this.expand(path);
  };

  #note(node: DirNode, depth: number): void {
    if (depth <= 0) return;
    this.#read.add(node.path);
    for (const child of node.children) this.#note(child, depth - 1);
  }

  /** Opens a directory and reads what is below it, so that its children know whether they open. */
  expand = async (path: string): Promise<void> => {
    this.open.add(path);
    const find = (node: DirNode): DirNode | undefined =>
      node.path === path ? node : node.children.filter((child) => path === child.path || path.startsWith(`${child.path}/`)).map(find)[0];
    const node = this.root && find(this.root);
    if (node && this.isRead(path) && node.children.every((child) => this.isRead(child.path))) return;
    const answer = await tree(this.workspace, path, DEPTH);
    if (!answer.ok || !this.root) return;
    this.root = graft(this.root, answer.data);
    this.#note(answer.data, DEPTH);
  };

  /** Opens the way to a directory. */
  reveal = async (path: string): Promise<void> => {
    for (const above of ancestors(path).slice(0, -1)) await this.expand(above);
  };

  apply(changes: Change[]): void {
    const mine = changes.filter((change) => change.workspace === this.workspace);
    if (!mine.length || !this.root) return;
    const movedDirs = mine.some((change) => change.op === 'move' && change.type === 'dir');
    if (needsReading(mine) || movedDirs) return void this.load();
    for (const change of mine) if (change.op === 'mkdir') this.#read.add(change.path);
    this.root = patchTree(this.root, mine);
  }
}
