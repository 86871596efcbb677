import { expect, test } from 'vitest';
import { parseSize } from '~/ui/size';
import { blockOf, commandOf, type Wanted } from './mcp';

const wanted: Wanted = { client: 'claude', transport: 'http', as: 'agent', name: 'ada', origin: 'http://box:7420', token: null };

test('a block names the server and has a place for the token', () => {
  expect(JSON.parse(blockOf(wanted))).toEqual({ mcpServers: { offshoot: { type: 'http', url: 'http://box:7420/mcp', headers: { Authorization: 'Bearer TOKEN' } } } });
  expect(blockOf({ ...wanted, token: 'ofs_1' })).toContain('Bearer ofs_1');
  expect(JSON.parse(blockOf({ ...wanted, client: 'cursor' })).mcpServers.offshoot).not.toHaveProperty('type');
});

test('stdio needs no token', () => {
  const stdio: Wanted = { ...wanted, transport: 'stdio', as: 'workspace', name: 'w~1' };
  expect(JSON.parse(blockOf(stdio))).toEqual({ mcpServers: { offshoot: { command: 'offshoot', args: ['mcp', '--workspace', 'w~1'] } } });
  expect(blockOf({ ...stdio, client: 'codex' })).toBe('[mcp_servers.offshoot]\ncommand = "offshoot"\nargs = ["mcp","--workspace","w~1"]');
  expect([commandOf(stdio), commandOf({ ...stdio, client: 'generic' })]).toEqual(['offshoot mcp config claude --workspace w~1', null]);
});

test('sizes are read as they are typed', () => {
  expect(['500 MB', '2g', '1.5 kB', '1,5k', '64 KiB', '10', 'x', '', '-1', '5 parsecs'].map(parseSize)).toEqual([5e8, 2e9, 1500, 1500, 65_536, 10, null, null, null, null]);
});
