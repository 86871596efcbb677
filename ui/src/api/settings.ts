// Tokens, quotas, and what the server says about itself.
import { get, post, put, remove, type Schemas } from './client';

export type Token = Schemas['Token'];
export type NewToken = Schemas['NewToken'];
export type IssuedToken = Schemas['IssuedToken'];
export type Quota = Schemas['Quota'];
export type Capabilities = Schemas['Capabilities'];

export const TOKENS = 200;
export const listTokens = (after?: string, signal?: AbortSignal) => get('/api/v1/tokens', { query: { limit: TOKENS, ...(after && { after }) }, signal });
export const issueToken = (token: NewToken) => post('/api/v1/tokens', { body: token });
export const revokeToken = (token: string) => remove('/api/v1/tokens/{token}', { path: { token } });
export const setQuota = (workspace: string, quota: Quota) =>
  put('/api/v1/workspaces/{workspace}/quota', { path: { workspace }, body: { bytes: quota.bytes ?? null, inodes: quota.inodes ?? null } });
export const readCapabilities = (signal?: AbortSignal) => get('/api/v1/capabilities', { signal });
