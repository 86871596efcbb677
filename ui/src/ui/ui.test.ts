import { expect, test } from 'vitest';
import { agentClass, monogram } from './agent';
import { parseDiff } from './diff';
import { plain } from './plain';
import { quote, sh } from './quote';
import { bytes, relative } from './time';

test('an agent has the same colour everywhere and letters that tell it apart', () => {
  expect(agentClass('ada')).toBe(agentClass('ada'));
  expect([monogram('ada'), monogram('code-reviewer-12'), agentClass('user'), agentClass('outside')]).toEqual(['AD', 'C12', 'agent-user', 'agent-system']);
  expect([monogram('e\u202Egnp'), monogram('\u200B'), monogram('日本')]).toEqual(['EG', '?', '日本']);
});

test('sizes and times are short', () => {
  expect([bytes(0), bytes(999), bytes(1000), bytes(12_345_678)]).toEqual(['0 B', '999 B', '1.0 kB', '12 MB']);
  const now = Date.parse('2026-01-01T00:01:00Z');
  expect(relative('2026-01-01T00:00:58Z', now, 'en')).toBeNull();
  expect(relative('2026-01-01T00:00:00Z', now, 'en')).toBe('1m ago');
});

test('a difference has both numbers', () => {
  const lines = parseDiff('@@ -1,2 +1,2 @@\n same\n-old\n+new\n');
  expect(lines.slice(1)).toEqual([
    { kind: 'same', text: 'same', from: 1, to: 1 },
    { kind: 'del', text: 'old', from: 2 },
    { kind: 'add', text: 'new', to: 2 },
  ]);
});

test('a command to copy cannot be broken out of', () => {
  expect([quote('src/a.rs'), quote('a b'), quote("x'; rm -rf ~ #")]).toEqual(['src/a.rs', "'a b'", "'x'\\''; rm -rf ~ #'"]);
  expect([sh`offshoot blame ${'app'} ${'$(id).md'}`, sh`offshoot token issue --${'agent'} ${'x;id'}`, sh`offshoot agent list`]).toEqual(["offshoot blame app '$(id).md'", "offshoot token issue --agent 'x;id'", 'offshoot agent list']);
});

test('what cannot be seen is shown, and what is written in any language stays', () => {
  expect(plain('exe.\u202Egnp\u200B\u0000')).toBe('exe.⟨U+202E⟩gnp⟨U+200B⟩⟨U+0000⟩');
  for (const text of ['a\tb\nc', 'שלום', 'می\u200Cخواهم', '👩\u200D🚀', '日本語']) expect(plain(text)).toBe(text);
});
