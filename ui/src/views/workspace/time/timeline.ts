// What happened as rows: snapshots, and between two of them the writes of one agent for one message
// to one file folded into one row; a message that touched many files is one row that opens.
import type { Snapshot } from '~/api/time';
import type { HistoryLine } from '~/api/workspaces';
import { whoOf } from '~/live/events';

export type Row =
  | { kind: 'now'; key: string }
  | { kind: 'snapshot'; key: string; snapshot: Snapshot; isBase: boolean }
  /** Of one file, the newest first. */
  | { kind: 'writes'; key: string; path: string; lines: HistoryLine[]; isOpen: boolean; isInside: boolean }
  /** Of many files for one message. */
  | { kind: 'many'; key: string; lines: HistoryLine[]; paths: number; isOpen: boolean }
  | { kind: 'version'; key: string; line: HistoryLine }
  /** What concerns the whole workspace: restored, merged, updated. */
  | { kind: 'mark'; key: string; line: HistoryLine; paths: string[] };

/** More files than this for one message fold. */
export const FEW = 6;

/** The operation that says most about several of one file. */
export function opOf(lines: HistoryLine[]): string {
  const [last, first] = [lines[0]!, lines.at(-1)!];
  if (last.via === 'restore') return 'restore';
  if (last.op === 'delete' || last.op === 'move') return last.op;
  return first.op === 'create' ? 'create' : last.op;
}

function groups(lines: HistoryLine[], by: (line: HistoryLine) => string): [string, HistoryLine[]][] {
  const found = new Map<string, HistoryLine[]>();
  for (const line of lines) {
    const key = by(line);
    const group = found.get(key);
    if (group) group.push(line);
    else found.set(key, [line]);
  }
  return [...found];
}

/** Rows of what lies between two snapshots. */
function segment(lines: HistoryLine[], open: ReadonlySet<string>, ofFile: boolean): Row[] {
  return groups(lines, (line) => `${whoOf(line)}\n${line.message_id ?? ''}`).flatMap(([, all]): Row[] => {
    const files = groups(all, (line) => line.path);
    // The oldest line names a group: it stays the same while newer ones join.
    const row = (path: string, some: HistoryLine[], isInside: boolean): Row[] => {
      const key = `w${some.at(-1)!.seq}`;
      const isOpen = ofFile && some.length > 1 && open.has(key);
      return [{ kind: 'writes', key, path, lines: some, isOpen, isInside }, ...(isOpen ? some.map((line): Row => ({ kind: 'version', key: `v${line.seq}`, line })) : [])];
    };
    if (files.length <= FEW) return files.flatMap(([path, some]) => row(path, some, false));
    const key = `m${all.at(-1)!.seq}`;
    const isOpen = open.has(key);
    return [{ kind: 'many', key, lines: all, paths: files.length, isOpen }, ...(isOpen ? files.flatMap(([path, some]) => row(path, some, true)) : [])];
  });
}

/** Both newest first. `ofFile` if the lines are those of one file. */
export function timeline(lines: HistoryLine[], snapshots: Snapshot[], open: ReadonlySet<string>, ofFile = false): Row[] {
  const rows: Row[] = [{ kind: 'now', key: 'now' }];
  const known = new Map(snapshots.map((snapshot) => [snapshot.id, snapshot]));
  const bases = new Set(lines.filter((line) => line.op === 'workspace_create' && line.after).map((line) => line.after!));
  const waiting = snapshots.filter((snapshot) => !bases.has(snapshot.id));
  let pending: HistoryLine[] = [];
  let restored: string[] = [];
  const flush = () => {
    rows.push(...segment(pending, open, ofFile));
    pending = [];
  };
  const take = (until: string | null) => {
    while (waiting[0] && (until === null || waiting[0].created_at >= until)) {
      flush();
      const snapshot = waiting.shift()!;
      rows.push({ kind: 'snapshot', key: snapshot.id, snapshot, isBase: false });
    }
  };
  for (const line of lines) {
    take(line.at);
    // The change that a restore made to one file says it already.
    if (line.op === 'snapshot' || (ofFile && line.op === 'restore')) continue;
    if (line.path && line.via === 'restore' && line.op !== 'restore' && !ofFile) { restored.push(line.path); continue; }
    if (line.path && line.op !== 'restore') { pending.push(line); continue; }
    flush();
    const base = line.op === 'workspace_create' && line.after ? known.get(line.after) : undefined;
    if (base) rows.push({ kind: 'snapshot', key: base.id, snapshot: base, isBase: true });
    else rows.push({ kind: 'mark', key: `o${line.seq}`, line, paths: line.op === 'restore' ? restored : [] });
    if (line.op === 'restore') restored = [];
  }
  flush();
  take(null);
  return rows;
}
