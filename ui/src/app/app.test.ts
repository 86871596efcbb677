import { expect, test } from 'vitest';
import { nameOfKey, Pairs } from './keys';
import { links } from './links';
import { score } from './match';

const key = (name: string, rest = {}) => ({ key: name, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...rest });

test('keys have names, and pairs follow each other', () => {
  expect([nameOfKey(key('k', { ctrlKey: true })), nameOfKey(key('?', { shiftKey: true })), nameOfKey(key(' ')), nameOfKey(key('F2'))]).toEqual(['Ctrl+K', '?', 'Space', 'F2']);
  const pairs = new Pairs();
  const starts = (one: string) => one === 'g';
  expect(pairs.names('g', starts)).toEqual(['g']);
  expect(pairs.names('h', starts)).toEqual(['g h', 'h']);
});

test('what begins a word fits best', () => {
  expect(score('open file', 'file')).toBeGreaterThan(score('profile', 'file'));
  expect([score('abc', 'ac') > 0, score('abc', 'ca')]).toEqual([true, 0]);
});

test('a directory ends with a slash', () => {
  expect([links.dir('w', 'a b/c'), links.file('w', 'a/b#c'), links.dir('w')]).toEqual(['/w/w/f/a%20b/c/', '/w/w/f/a/b%23c', '/w/w/f/']);
  // No name is `..`, and no link leads up.
  for (const href of [links.file('w', '../../settings'), links.dir('..', 'a/../..'), links.project('..')]) expect(new URL(href, 'http://x').pathname).toBe(href);
});
