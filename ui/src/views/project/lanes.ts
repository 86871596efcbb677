// The graph: one trunk, and a lane for each open fork from where it began up to now.

export interface Lane {
  fork: string;
  /** From the trunk, 1 is the nearest. */
  column: number;
  /** The row of the snapshot that it began with; the number of rows if that is older than all of them. */
  row: number;
}

/** More lanes than this nobody tells apart. */
export const MOST = 12;

/** Those that began last are nearest to the trunk, so that no lane crosses another. */
export function lanesOf(snapshots: string[], forks: { id: string; base_snapshot: string }[]): { lanes: Lane[]; folded: number } {
  const rows = new Map(snapshots.map((id, row) => [id, row]));
  const all = forks.map((fork) => ({ fork: fork.id, row: rows.get(fork.base_snapshot) ?? snapshots.length }));
  all.sort((a, b) => a.row - b.row || (a.fork < b.fork ? -1 : 1));
  const lanes = all.slice(0, MOST).map((lane, i) => ({ ...lane, column: i + 1 }));
  return { lanes, folded: all.length - lanes.length };
}
