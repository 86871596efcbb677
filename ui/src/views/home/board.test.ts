import { expect, test } from 'vitest';
import type { ForkOverview } from '~/api/workspaces';
import { boards, columnOf, needs, overlaps, QUIET } from './board';

const now = Date.parse('2026-01-01T12:00:00Z');
const ago = (ms: number) => new Date(now - ms).toISOString();
const fork = (id: string, rest: Partial<ForkOverview> = {}): ForkOverview => ({
  id, project: 'app', agent: id, base_snapshot: '', behind: 0, changed: 1, changed_at: ago(QUIET * 2), created_at: ago(QUIET * 3),
  open_reviews: 0, overlap: [], overlap_with_project: [], provider: 'copy', ...rest,
});

test('a fork is worked on, ready or in review', () => {
  expect(columnOf(fork('a', { changed_at: ago(1000) }), now)).toBe('working');
  expect(columnOf(fork('a', { changed: 0 }), now)).toBe('working');
  expect(columnOf(fork('a'), now)).toBe('ready');
  expect(columnOf(fork('a', { open_reviews: 1, changed_at: ago(0) }), now)).toBe('review');
});

test('overlaps count a path once, and those that were not named', () => {
  const one = fork('a', { overlap_with_project: ['x'], overlap: [{ fork: 'b', paths: ['x', 'y'], more: 2 }] });
  expect(overlaps(one)).toBe(4);
  expect(needs([], [fork('z'), one]).map((need) => need.id)).toEqual(['a']);
});

test('projects that changed last come first', () => {
  const all = boards([{ name: 'old', changed_at: ago(9e6) }, { name: 'app', changed_at: ago(9e7) }], [fork('a', { changed_at: ago(0) })], [], now);
  expect(all.map((board) => board.project)).toEqual(['app', 'old']);
});
