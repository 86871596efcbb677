import { expect, test } from 'vitest';
import type { Region, Review, ReviewContent } from '~/api/reviews';
import { alike, around, decided, differing, EMPTY, nextUndecided, oneChoice, patternOf, placesIn, requestOf } from './decision';

const piece = (line: number, text: string) => ({ line, lines: text.split('\n').length - 1 || 1, text });
const region = (number: number, line: number, word: string): Region => ({
  number, part: `line ${line}`, kind: 'both_changed', choices: ['ours', 'theirs', 'base', 'union'],
  base: piece(line, 'base\n'), ours: piece(line, `${word} ours\n`), theirs: piece(line, `${word} theirs\n`),
});
const review = (rest: Partial<Review> = {}): Review => ({
  id: 'r1', project: 'app', workspace: 'bob', path: 'docs/a.md', kind: 'both_changed', lands_in: 'project', protected: false, state: 'open', candidates: [], changed_since: false,
  opened_at: '2026-01-01T00:00:00Z', parts: [], ours_by: { operator: 'ada', at: '2026-01-01T00:00:00Z' }, theirs_by: { operator: 'bob', at: '2026-01-01T00:00:00Z' }, ...rest,
});
const content = (regions: Region[], rest: Partial<ReviewContent> = {}): ReviewContent => ({ review: review(), candidates: [], regions, ours: { size: 1, id: 'abc', content: 'x', encoding: 'utf8' }, ...rest });

test('a decision is sent only when every part has a choice', () => {
  const two = content([region(1, 1, 'a'), region(2, 5, 'b')]);
  const one = { ...EMPTY, parts: { 1: 'ours' as const } };
  expect([decided(two, one), requestOf(two, one)]).toEqual([{ n: 1, all: 2 }, null]);
  expect(requestOf(two, { ...EMPTY, parts: { 1: 'ours', 2: 'union' } })).toEqual({ parts: { 1: 'ours', 2: 'union' }, ours: 'abc' });
  expect(requestOf(two, { ...one, edited: '' })).toEqual({ choice: 'content', content: '' });
  expect(requestOf(two, { ...one, candidate: 2 })).toEqual({ choice: 'candidate', candidate: 2 });
});

test('what is decided as a whole takes one choice', () => {
  const whole = content([]);
  expect([requestOf(whole, EMPTY), requestOf(whole, { ...EMPTY, whole: 'theirs' })]).toEqual([null, { choice: 'theirs' }]);
});

test('the next part without a choice comes round, and there may be none', () => {
  const three = [region(1, 1, 'a'), region(2, 3, 'b'), region(3, 5, 'c')];
  expect([nextUndecided(three, { 3: 'ours' }, 2), nextUndecided(three, { 1: 'ours', 3: 'ours' }, 0), nextUndecided(three, { 1: 'ours', 2: 'base', 3: 'ours' }, 0)]).toEqual([0, 1, -1]);
});

test('one choice for all is told from a mixture', () => {
  const two = content([region(1, 1, 'a'), region(2, 5, 'b')]);
  expect([oneChoice(two, { ...EMPTY, parts: { 1: 'ours', 2: 'ours' } }), oneChoice(two, { ...EMPTY, parts: { 1: 'ours', 2: 'base' } }), oneChoice(two, { ...EMPTY, parts: { 1: 'ours' } })]).toEqual(['ours', null, null]);
});

test('alike means the same project, pattern, kind and people', () => {
  const same = review({ id: 'r2', path: 'docs/b.md' });
  const others = [review({ id: 'r3', path: 'src/b.md' }), review({ id: 'r4', path: 'docs/b.rs' }), review({ id: 'r5', path: 'docs/c.md', workspace: 'cyd' }), review({ id: 'r6', path: 'docs/d.md', kind: 'both_added' }), review({ id: 'r7', path: 'docs/e.md', protected: true }), review({ id: 'r8', path: 'docs/f.md', state: 'decided' })];
  expect(alike([review(), same, ...others], review()).map((one) => one.id)).toEqual(['r1', 'r2']);
  expect(['docs/a.md', 'Makefile', '.env', 'a.b/c', 'x.tar.gz'].map(patternOf)).toEqual(['docs/*.md', 'Makefile', '.env', 'a.b/c', '*.gz']);
});

test('a piece has its neighbours, and an empty one covers no line', () => {
  const text = 'one\ntwo\nthree\nfour\nfive\n';
  expect(around(text, piece(3, 'three\n'), 1)).toEqual({ before: ['two'], after: ['four'], first: 2 });
  expect(around(text, { line: 3, lines: 1, text: '' }, 1)).toEqual({ before: ['two'], after: ['three'], first: 2 });
  expect(around(null, null)).toEqual({ before: [], after: [], first: 1 });
});

test('what differs is told in whole words', () => {
  expect(differing('port 9090.', 'port 8080.')).toEqual(['port ', '9090', '.']);
  expect(differing('same', 'same')).toEqual(['same', '', '']);
  expect(differing('a b', 'a')).toEqual(['a', ' b', '']);
  expect(differing('你好世界', '你好天下')).toEqual(['你好', '世界', '']);
  expect(differing('all new.', 'was old.')).toEqual(['all new.', '', '']);
});

test('parts are found in the result one after the other', () => {
  const two = [region(1, 1, 'x'), region(2, 3, 'x')];
  expect(placesIn('x ours\nmid\nx ours\nx theirs\n', two, { 1: 'ours', 2: 'union' })).toEqual(['L1', 'L3-4']);
  expect(placesIn('edited\n', two, {})).toEqual([null, null]);
});
