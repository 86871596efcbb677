import { expect, test } from 'vitest';
import type { ListEntry } from '~/api/workspaces';
import { needsReading, patchEntries, patchTree } from './apply';
import { isMessage, type Change } from './events';
import { Parser } from './sse';

const change = (op: string, path: string, rest: Partial<Change> = {}): Change =>
  ({ op, path, at: '2026-01-02T00:00:00Z', operator: 'outside', claim: 'ada', seq: 1, version: 2, via: 'sync', type: 'file', size: 3, ...rest }) as Change;
const entry = (path: string): ListEntry => ({ name: path, path, type: 'file', size: 1, modified_at: '2026-01-01T00:00:00Z', mime_type: null, operator: null });
const byName = (a: ListEntry, b: ListEntry) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);

test('frames come whole, however the bytes are cut', () => {
  const parser = new Parser();
  expect(parser.push('retry: 1000\n: open\n\nid: 7\nevent: cha')).toEqual([]);
  expect(parser.push('nge\ndata: {"a":1}\n\n: heartbeat\n\n')).toEqual([{ id: '7', event: 'change', data: '{"a":1}' }]);
});

test('changes come in at their place, with who made them', () => {
  const patch = patchEntries([entry('a'), entry('c')], [change('create', 'b'), change('write', 'c', { size: 9 }), change('create', 'sub/x')], '', byName);
  expect(patch?.entries.map((one) => one.name)).toEqual(['a', 'b', 'c']);
  expect(patch?.entries[1]?.operator).toBe('ada');
  expect(patch?.entries[2]?.size).toBe(9);
  expect([patch?.touched, patch?.added]).toEqual([['b', 'c'], 1]);
});

test('moves and deletes leave, and what is elsewhere changes nothing', () => {
  expect(patchEntries([entry('a'), entry('b')], [change('move', 'z', { from: 'a' }), change('delete', 'b')], '', byName)?.entries.map((one) => one.name)).toEqual(['z']);
  expect(patchEntries([entry('a')], [change('write', 'sub/x')], '', byName)).toBeNull();
  expect(patchEntries([entry('a')], [change('move', 'sub/a', { from: 'a' })], '', byName)?.entries).toEqual([]);
});

test('an entry past the loaded page waits for it', () => {
  const patch = patchEntries([entry('a')], [change('create', 'z')], '', byName, (one) => one.name <= 'm');
  expect(patch?.entries ?? [entry('a')]).toHaveLength(1);
});

test('directories come and go in the tree', () => {
  const root = { name: '', path: '', children: [{ name: 'a', path: 'a', children: [] }] };
  const grown = patchTree(root, [change('mkdir', 'a/b', { type: 'dir' }), change('mkdir', 'c', { type: 'dir' })]);
  expect(grown.children.map((node) => node.path)).toEqual(['a', 'c']);
  expect(grown.children[0]?.children.map((node) => node.path)).toEqual(['a/b']);
  expect(patchTree(grown, [change('delete', 'a/b', { type: 'dir' })]).children[0]?.children).toEqual([]);
  expect(patchTree(root, [change('write', 'a/x')])).toBe(root);
});

test('a restore says less than what changed', () => {
  expect([needsReading([change('restore', '')]), needsReading([change('write', 'a')])]).toEqual([true, false]);
});

test('what other tabs send is looked at before it is used', () => {
  const show = { workspace: 'a', paths: ['b'], operator: 'c' };
  for (const good of [{ kind: 'hello' }, { kind: 'reset', seq: 1 }, { kind: 'state', online: true, seq: 0 }, { kind: 'changes', changes: [change('write', 'a')], seq: 2 }, { kind: 'show', show }]) expect(isMessage(good)).toBe(true);
  for (const bad of [null, 5, 'x', {}, { kind: 'other' }, { kind: 'reset' }, { kind: 'state', seq: 1 }, { kind: 'changes', changes: [null], seq: 1 }, { kind: 'changes', seq: 1 }, { kind: 'show', show: null }, { kind: 'show', show: { paths: [1] } }]) expect(isMessage(bad), JSON.stringify(bad)).toBe(false);
});
