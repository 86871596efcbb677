// Workspaces: what is asked about one, and what is done to a whole one.
import { address, get, post, remove, type Schemas } from './client';

export type Workspace = Schemas['Workspace'];
export type ForkOverview = Schemas['ForkOverview'];
export type ListEntry = Schemas['ListEntry'];
export type DirNode = Schemas['DirNode'];
export type StatusPart = Schemas['StatusPart'];
export type ChangedPath = Schemas['ChangedPath'];
export type FileDifference = Schemas['FileDifference'];
/** What a list says of a path that differs; its lines come later. */
export type Differing = Pick<ChangedPath, 'path' | 'change' | 'type' | 'before' | 'after'>;
export type Completed = Schemas['Completed'];
export type Updated = Schemas['Updated'];
export type HistoryLine = Schemas['HistoryLine'];
export type Sort = 'name' | 'size' | 'modified';

const ONE = '/api/v1/workspaces/{workspace}';
const PAGE = 1000;
/** The first page of a directory: enough for any screen, and quick. */
const FIRST = 200;

export const listWorkspaces = (signal?: AbortSignal) =>
  get('/api/v1/workspaces', { query: { limit: PAGE }, signal });
export const workspace = (id: string, signal?: AbortSignal) => get(ONE, { path: { workspace: id }, signal });
export const info = (id: string, signal?: AbortSignal) => get(`${ONE}/info`, { path: { workspace: id }, signal });
export const hostPath = (id: string, signal?: AbortSignal) => get(`${ONE}/path`, { path: { workspace: id }, signal });

export interface ListOptions {
  path: string;
  sort: Sort;
  descending: boolean;
  after?: string | undefined;
}

/** One page of a directory, directories first. */
export function list(id: string, { path, sort, descending, after }: ListOptions, signal?: AbortSignal) {
  const query = { sort, dirs_first: true, descending, limit: after ? PAGE : FIRST, ...(path && { path }), ...(after && { after }) };
  return get(`${ONE}/list`, { path: { workspace: id }, query, signal });
}

/** The directories below a path, so many levels of them. */
export function tree(id: string, path: string, depth: number, signal?: AbortSignal) {
  return get(`${ONE}/tree`, { path: { workspace: id }, query: { depth, ...(path && { path }) }, signal });
}

export const changes = (id: string, after?: string, signal?: AbortSignal) =>
  get(`${ONE}/changes`, { path: { workspace: id }, query: { limit: PAGE, ...(after && { after }) }, signal });

/** What changed in one file of a fork since its base, or of a workspace since its last snapshot. */
export function diffOf(id: string, path: string, isFork: boolean, signal?: AbortSignal) {
  const query = { path, ...(isFork && { against: 'base' as const }) };
  return get(`${ONE}/diff`, { path: { workspace: id }, query, signal });
}

export const sync = (id: string) => post(`${ONE}/sync`, { path: { workspace: id } });
export const complete = (id: string, dryRun: boolean) =>
  post(`${ONE}/complete`, { path: { workspace: id }, body: { dry_run: dryRun } });
export const update = (id: string, dryRun: boolean) =>
  post(`${ONE}/update`, { path: { workspace: id }, body: { dry_run: dryRun } });
export const takeSnapshot = (id: string, label?: string) =>
  post(`${ONE}/snapshots`, { path: { workspace: id }, body: { label: label ?? null } });

/** Its last state stays as a snapshot. */
export const removeWorkspace = (id: string) => remove(ONE, { path: { workspace: id } });

/** Where a browser downloads a directory from. */
export const archiveAddress = (id: string, path: string, format: 'zip' | 'tar.gz') =>
  address(`${ONE}/archive`, { workspace: id }, { format, ...(path && { path }) });

export const history = (id: string, query: { path?: string; limit?: number; after?: number }, signal?: AbortSignal) =>
  get(`${ONE}/history`, { path: { workspace: id }, query, signal });
export const restore = (id: string, snapshot: string, path?: string) =>
  post(`${ONE}/restore`, { path: { workspace: id }, body: { snapshot, path: path ?? null } });
