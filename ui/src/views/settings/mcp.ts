// Pure: what to put into the settings of an MCP client.
import { sh } from '~/ui/quote';

export type Client = 'claude' | 'cursor' | 'codex' | 'generic';
export type Transport = 'http' | 'stdio';
export const CLIENTS: Client[] = ['claude', 'cursor', 'codex', 'generic'];
/** Stands where a token belongs. */
export const PLACE = 'TOKEN';

export interface Wanted {
  client: Client;
  transport: Transport;
  as: 'agent' | 'workspace';
  name: string;
  origin: string;
  token: string | null;
}

export const FILES: Record<Client, string | null> = { claude: '.mcp.json', cursor: '.cursor/mcp.json', codex: '~/.codex/config.toml', generic: null };

/** The block itself. */
export function blockOf({ client, transport, as, name, origin, token }: Wanted): string {
  const url = `${origin}/mcp`;
  const args = ['mcp', `--${as}`, name];
  if (client === 'codex') {
    const lines = transport === 'stdio' ? ['command = "offshoot"', `args = ${JSON.stringify(args)}`] : [`url = ${JSON.stringify(url)}`, 'bearer_token_env_var = "OFFSHOOT_TOKEN"'];
    return ['[mcp_servers.offshoot]', ...lines].join('\n');
  }
  const headers = { Authorization: `Bearer ${token ?? PLACE}` };
  // Cursor tells HTTP by the `url` alone; the others want to be told.
  const server = transport === 'stdio' ? { command: 'offshoot', args } : client === 'cursor' ? { url, headers } : { type: 'http', url, headers };
  return JSON.stringify({ mcpServers: { offshoot: server } }, null, 2);
}

/** A command that does it, or prints the block with the paths of the machine. */
export function commandOf({ client, transport, as, name, origin, token }: Wanted): string | null {
  if (transport === 'stdio') return client === 'generic' ? null : sh`offshoot mcp config ${client} --${as} ${name}`;
  if (client === 'claude') return `claude mcp add --transport http offshoot ${origin}/mcp --header "Authorization: Bearer ${token ?? PLACE}"`;
  if (client === 'codex') return `export OFFSHOOT_TOKEN=${token ?? PLACE}`;
  return null;
}
