import { expect, test } from 'vitest';
import type { Snapshot } from '~/api/time';
import type { HistoryLine } from '~/api/workspaces';
import { FEW, opOf, timeline, type Row } from './timeline';

let seq = 0;
const at = (n: number) => `2026-01-01T00:00:${String(n).padStart(2, '0')}.000000Z`;
const line = (path: string, rest: Partial<HistoryLine> = {}): HistoryLine => {
  seq += 1;
  return { at: at(seq), op: 'write', operator: 'ada', path, seq, version: seq, via: 'call', message_id: 'm-1', ...rest };
};
const snapshot = (id: string, created_at: string) => ({ id, created_at, label: null, operator: 'user' }) as Snapshot;
const shape = (rows: Row[]) => rows.map((row) => (row.kind === 'writes' ? `${row.path} x${row.lines.length}` : row.kind === 'many' ? `${row.paths} files` : row.kind === 'snapshot' ? `[${row.snapshot.id}]` : row.kind === 'mark' ? `${row.line.op} ${row.paths.length}` : row.kind));
const newestFirst = (lines: HistoryLine[]) => lines.toReversed();

test('writes of one agent to one file fold, also when others write in between', () => {
  seq = 0;
  const lines = [line('', { op: 'workspace_create', after: 'base' }), line('a'), line('b', { operator: 'bob' }), line('a'), line('', { op: 'snapshot', after: 's1' }), line('a'), line('a', { message_id: 'm-2' })];
  const rows = timeline(newestFirst(lines), [snapshot('s1', at(5)), snapshot('base', at(0))], new Set());
  expect(shape(rows)).toEqual(['now', 'a x1', 'a x1', '[s1]', 'a x2', 'b x1', '[base]']);
  expect(rows.at(-1)).toMatchObject({ isBase: true });
});

test('a message that touched many files is one row that opens', () => {
  seq = 0;
  const lines = Array.from({ length: FEW + 1 }, (_, i) => line(`f${i}`));
  const folded = timeline(newestFirst(lines), [], new Set());
  expect(shape(folded)).toEqual(['now', `${FEW + 1} files`]);
  expect(timeline(newestFirst(lines), [], new Set([folded[1]!.key]))).toHaveLength(FEW + 3);
});

test('a restore is one mark with what it changed; of a file it is its change', () => {
  seq = 0;
  const lines = [line('a'), line('', { op: 'restore', via: 'restore' }), line('a', { via: 'restore' }), line('b', { via: 'restore', op: 'delete' })];
  expect(shape(timeline(newestFirst(lines), [], new Set()))).toEqual(['now', 'restore 2', 'a x1']);
  const ofFile = [line('a'), line('a', { op: 'restore', via: 'restore', operator: 'user' }), line('a', { via: 'restore', operator: 'user' })];
  const rows = timeline(newestFirst(ofFile), [], new Set(), true);
  expect(shape(rows)).toEqual(['now', 'a x1', 'a x1']);
  expect(rows[1]!.kind === 'writes' && opOf(rows[1]!.lines)).toBe('restore');
});

test('the versions of a file show when its row is opened', () => {
  seq = 0;
  const lines = [line('a', { op: 'create' }), line('a'), line('a')];
  const [, row] = timeline(newestFirst(lines), [], new Set(), true);
  expect(row!.kind === 'writes' && opOf(row!.lines)).toBe('create');
  expect(timeline(newestFirst(lines), [], new Set([row!.key]), true).filter((one) => one.kind === 'version')).toHaveLength(3);
});
