// Which entry the keys are on, and which are selected.
import { SvelteSet } from 'svelte/reactivity';
import type { ListEntry } from '~/api/workspaces';

export class Picks {
  active = $state<string | null>(null);
  selected = new SvelteSet<string>();

  toggle(path: string): void {
    if (!this.selected.delete(path)) this.selected.add(path);
  }

  /** From the last picked to this one. */
  range(entries: ListEntry[], to: string): void {
    const last = [...this.selected].at(-1) ?? to;
    const ends = [last, to].map((path) => entries.findIndex((entry) => entry.path === path)).sort((a, b) => a - b);
    for (const entry of entries.slice(Math.max(0, ends[0]!), ends[1]! + 1)) this.selected.add(entry.path);
  }

  clear(): void {
    this.selected.clear();
    this.active = null;
  }

  /** What an action is for: the selected, or the one that the keys are on. */
  of(entries: ListEntry[]): ListEntry[] {
    if (this.selected.size) return entries.filter((entry) => this.selected.has(entry.path));
    return entries.filter((entry) => entry.path === this.active);
  }
}
