// @vitest-environment node
import { expect, test } from 'vitest';
import { unified } from './merge';

const numbered = (n: number, change: (line: string, i: number) => string | null = (line) => line) =>
  Array.from({ length: n }, (_, i) => change(`line ${i + 1}`, i + 1)).filter((line) => line !== null).map((line) => `${line}\n`).join('');

test('two texts become hunks with their lines and counts', () => {
  const right = numbered(30, (line, i) => (i === 2 ? 'TWO' : i === 20 ? null : line));
  expect(unified(numbered(30), right)).toEqual({
    added: 1,
    removed: 2,
    diff: '@@ -1,5 +1,5 @@\n line 1\n-line 2\n+TWO\n line 3\n line 4\n line 5\n@@ -17,7 +17,6 @@\n line 17\n line 18\n line 19\n-line 20\n line 21\n line 22\n line 23\n',
  });
});

test('what comes from nothing, goes to nothing or stays', () => {
  expect(unified('', 'a\nb\n')).toEqual({ added: 2, removed: 0, diff: '@@ -0,0 +1,2 @@\n+a\n+b\n' });
  expect(unified('a\nb\n', '')).toEqual({ added: 0, removed: 2, diff: '@@ -1,2 +0,0 @@\n-a\n-b\n' });
  expect(unified('a\n', 'a\n')).toEqual({ added: 0, removed: 0, diff: '' });
  expect(unified('a\nb', 'a\nb\nc').added).toBeGreaterThan(0);
});

test('24 scattered edits of a long file stay 24', () => {
  const right = numbered(14_000, (line, i) => (i % 583 === 0 ? `${line} changed` : line));
  expect(unified(numbered(14_000), right)).toMatchObject({ added: 24, removed: 24 });
});
