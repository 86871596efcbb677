import { expect, test } from 'vitest';
import { stateOf } from './merges';

const conflict = { kind: 'both_changed', parts: [], path: 'a' };

test('what became of a merge', () => {
  const merge = { undone_by: null, conflicts: [], snapshot: 's', merged: ['a'] };
  expect(stateOf(merge)).toBe('Landed');
  expect(stateOf({ ...merge, conflicts: [conflict] })).toBe('Part');
  expect(stateOf({ ...merge, conflicts: [conflict], snapshot: null, merged: [] })).toBe('Waiting');
  expect(stateOf({ ...merge, snapshot: null, merged: [] })).toBe('Nothing');
  expect(stateOf({ ...merge, conflicts: [conflict], undone_by: 's2' })).toBe('Undone');
});
