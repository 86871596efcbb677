import { expect, test } from 'vitest';
import type { Agent } from '~/api/agents';
import { doing, treeOf } from './agents.svelte';

const agent = (id: string, parent = 'root'): Agent => ({ id, parent, role: 'r', priority: 0, owns_workspace: parent === 'root', created_at: '2026-01-01T00:00:00Z' });

test('parents come before children, and who lost its parent is at the top', () => {
  const rows = treeOf([agent('z'), agent('a', 'z'), agent('b', 'a'), agent('lost', 'gone'), agent('self', 'self')]);
  expect(rows.map((row) => [row.agent.id, row.depth])).toEqual([['lost', 0], ['self', 0], ['z', 0], ['a', 1], ['b', 2]]);
});

test('an agent works while it did something in the last minutes', () => {
  const now = Date.parse('2026-01-01T01:00:00Z');
  const row = { id: 'a', depth: 0, agent: agent('a'), workspace: 'a', shares: false, fork: undefined };
  const did = (op: string, at: string) => ({ ...row, did: { op, at, path: 'x' } });
  expect([doing(did('write', '2026-01-01T00:58:00Z'), now), doing(did('write', '2026-01-01T00:10:00Z'), now), doing(did('agent_spawn', '2026-01-01T00:59:59Z'), now), doing({ ...row, did: null }, now)]).toEqual(['working', 'quiet', 'idle', 'idle']);
});
