// One project: its snapshots, files, merges and settings.
import { address, get, post, put, type Schemas } from './client';
import { readFrom } from './files';
import type { DiffQuery } from './time';

export type Project = Schemas['Project'];
export type ProjectEntry = Schemas['ProjectEntry'];
export type Settings = Schemas['MergeSettings'];
export type PolicyWord = Schemas['PolicyWord'];
export type PolicyRequest = Schemas['PolicyRequest'];
export type NewFork = Schemas['NewFork'];
export type Version = Schemas['Version'];

const ONE = '/api/v1/projects/{project}';

export const project = (name: string, signal?: AbortSignal) => get(ONE, { path: { project: name }, signal });
export const createProject = (name: string, from?: string) => post('/api/v1/projects', { body: { name, ...(from && { from }) } });
export const snapshotsOf = (name: string, limit: number, after?: string, signal?: AbortSignal) =>
  get(`${ONE}/snapshots`, { path: { project: name }, query: { limit, ...(after && { after }) }, signal });
export const differenceOf = (name: string, query: DiffQuery, signal?: AbortSignal) =>
  get(`${ONE}/diff`, { path: { project: name }, query: query as object, signal });
export const mergesOf = (name: string, limit: number, after?: string, signal?: AbortSignal) =>
  get(`${ONE}/merges`, { path: { project: name }, query: { limit, ...(after && { after }) }, signal });
export const merge = (id: string, signal?: AbortSignal) => get('/api/v1/merges/{merge}', { path: { merge: id }, signal });
export const takeLost = (id: string, path: string) => post('/api/v1/merges/{merge}/take', { path: { merge: id }, body: { path } });
export const reviewsOf = (name: string, signal?: AbortSignal) =>
  get('/api/v1/reviews', { query: { project: name, state: 'all', limit: 200 }, signal });
export const settings = (name: string, signal?: AbortSignal) => get(`${ONE}/policy`, { path: { project: name }, signal });
export const setSettings = (name: string, body: PolicyRequest) => put(`${ONE}/policy`, { path: { project: name }, body });
export const forkProject = (name: string, body: NewFork) => post(`${ONE}/workspaces`, { path: { project: name }, body });

/** Only for those who see all: a link names a place of the server's machine. */
export const linkOf = (name: string, signal?: AbortSignal) => get(`${ONE}/link`, { path: { project: name }, signal });
export const pull = (name: string, dryRun: boolean) => post(`${ONE}/pull`, { path: { project: name }, body: { dry_run: dryRun } });
export const push = (name: string, to: string, dryRun: boolean) => post(`${ONE}/push`, { path: { project: name }, body: { to, dry_run: dryRun } });

interface At {
  at?: string | undefined;
}
export const listOf = (name: string, path: string, { at }: At, signal?: AbortSignal) =>
  get(`${ONE}/list`, { path: { project: name }, query: { ...(path && { path }), ...(at && { at }) }, signal });
export const blameOf = (name: string, path: string, { at }: At, signal?: AbortSignal) =>
  get(`${ONE}/blame/{path}`, { path: { project: name, path }, query: at ? { at } : {}, signal });
export const versionsOf = (name: string, path: string, signal?: AbortSignal) =>
  get(`${ONE}/versions/{path}`, { path: { project: name, path }, signal });
export const fileAddress = (name: string, path: string, query: At & { preview?: boolean }) =>
  address(`${ONE}/files/{path}`, { project: name, path }, query);
export const readOf = (name: string, path: string, most: number, { at }: At, signal?: AbortSignal) =>
  readFrom(fileAddress(name, path, { at }), most, signal);
