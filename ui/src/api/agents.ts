// Agents and their tree.
import { get, post, remove, type Schemas } from './client';

export type Agent = Schemas['Agent'];
export type NewAgent = Schemas['NewAgent'];
export type SpawnedAgent = Schemas['SpawnedAgent'];

export const listAgents = (signal?: AbortSignal) => get('/api/v1/agents', { signal });
/** The key makes a repetition harmless: it finds what the first request made. */
export const spawnAgent = (agent: NewAgent, key: string) => post('/api/v1/agents', { body: agent, headers: { 'idempotency-key': key } });
export const endAgent = (agent: string) => remove('/api/v1/agents/{agent}', { path: { agent } });
