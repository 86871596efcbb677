import { expect, test } from 'vitest';
import { ancestors, dirOf, encodePath, join, nameOf } from './paths';

test('each part is encoded, bytes that are no text as bytes', () => {
  expect(encodePath('a b/c#d?.txt')).toBe('a%20b/c%23d%3F.txt');
  expect(encodePath('caf\\xE9/\\x5Cx')).toBe('caf%E9/%5Cx');
  expect(encodePath('日本')).toBe('%E6%97%A5%E6%9C%AC');
});

test('no path leads out of where it belongs', () => {
  for (const path of ['../me', 'a/../../me', './a', '..']) expect(new URL(`/files/${encodePath(path)}`, 'http://x').pathname).toMatch(/^\/files\//);
  expect(encodePath('a..b/...')).toBe('a..b/...');
});

test('names, directories and the way to a path', () => {
  expect([nameOf('a/b'), nameOf('b'), dirOf('a/b'), dirOf('b')]).toEqual(['b', 'b', 'a', '']);
  expect([join('', 'a'), join('a', 'b')]).toEqual(['a', 'a/b']);
  expect(ancestors('a/b/c')).toEqual(['a', 'a/b', 'a/b/c']);
});
