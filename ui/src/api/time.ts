// What was: snapshots, differences between two of them, who wrote which line.
import { get, post, type Schemas } from './client';

export type Snapshot = Schemas['Snapshot'];
export type Difference = Schemas['Difference'];
export type BlameLine = Schemas['BlameLine'];
export type Blame = Schemas['Blame'];
export type Fork = Schemas['Fork'];

const ONE = '/api/v1/workspaces/{workspace}';

export interface DiffQuery {
  from?: string | undefined;
  to?: string | undefined;
  path?: string | undefined;
  name_only?: boolean;
}

export const snapshots = (id: string, limit: number, signal?: AbortSignal) =>
  get(`${ONE}/snapshots`, { path: { workspace: id }, query: { limit }, signal });
export const difference = (id: string, query: DiffQuery, signal?: AbortSignal) =>
  get(`${ONE}/diff`, { path: { workspace: id }, query: query as object, signal });
export const blame = (id: string, path: string, signal?: AbortSignal) =>
  get(`${ONE}/blame/{path}`, { path: { workspace: id, path }, signal });

/** A workspace of no project that begins with a snapshot. */
export const workspaceFrom = (snapshot: string) => post('/api/v1/workspaces', { body: { from: snapshot } });
