import { expect, test } from 'vitest';
import { lanesOf, MOST } from './lanes';

const fork = (id: string, base_snapshot: string) => ({ id, base_snapshot });

test('forks that began last are nearest, so lanes do not cross', () => {
  const { lanes, folded } = lanesOf(['c', 'b', 'a'], [fork('old', 'a'), fork('new', 'c'), fork('older', 'gone'), fork('also', 'a')]);
  expect(lanes.map((lane) => [lane.fork, lane.column, lane.row])).toEqual([['new', 1, 0], ['also', 2, 2], ['old', 3, 2], ['older', 4, 3]]);
  expect(folded).toBe(0);
});

test('above twelve they fold', () => {
  const { lanes, folded } = lanesOf(['a'], Array.from({ length: 20 }, (_, i) => fork(`f${i}`, 'a')));
  expect([lanes.length, folded]).toEqual([MOST, 20 - MOST]);
});
