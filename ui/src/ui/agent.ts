// Who somebody is at a glance: a colour by the hash of the id, the same on every page, and letters.

const COLOURS = 8;

/** FNV-1a: small, and the same everywhere. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) value = Math.imul(value ^ byte, 0x01000193);
  return value >>> 0;
}

export function agentClass(id: string): string {
  if (id === 'user' || id === 'admin' || id === 'root') return 'agent-user';
  if (id === 'system' || id === 'outside') return 'agent-system';
  return `agent-${hash(id) % COLOURS}`;
}

/** `ada` is AD, `code-reviewer-12` is C12: the first letter, and what tells it from its siblings. */
export function monogram(id: string): string {
  // The person who looks is no agent, and `admin` would look like `ada`.
  if (agentClass(id) === 'agent-user') return '☺';
  if (agentClass(id) === 'agent-system') return '⚙';
  const parts = id.replace(/[^\p{L}\p{N}\p{M}\p{S}\p{P}]/gu, '').split(/[-_.~]+/).filter(Boolean);
  const head = [...(parts[0] ?? '?')];
  const last = parts.length > 1 ? parts.at(-1)! : '';
  const tail = /^\d{1,2}$/.test(last) ? last : ([...last][0] ?? head[1]);
  return `${head[0] ?? '?'}${tail ?? ''}`.toUpperCase();
}
