// Conflicts that wait: the queue, the texts of one, and what is decided.
import { address, bodyOf, get, post, put, raw, type Schemas } from './client';
import type { Result } from './errors';

export type Review = Schemas['Review'];
export type ReviewContent = Schemas['ReviewContent'];
export type Region = Schemas['Region'];
export type Piece = Schemas['Piece'];
export type SideContent = Schemas['SideContent'];
export type Resolved = Schemas['Resolved'];
export type ResolveRequest = Schemas['ResolveRequest'];
export type ManyResolved = Schemas['ManyResolved'];
export type PartChoice = Schemas['PartChoiceWord'];
export type MergeSettings = Schemas['MergeSettings'];
export type PolicyWord = Schemas['PolicyWord'];

const ONE = '/api/v1/reviews/{review}';
const PROJECT_FILE = '/api/v1/projects/{project}/files/{path}';
export const PAGE = 100;

export interface ReviewFilter {
  project?: string | undefined;
  agent?: string | undefined;
}

/** All that are not resolved: open ones, and those that are decided and wait for the rest of their merge. */
export const reviewsPage = ({ project, agent }: ReviewFilter, after?: string, signal?: AbortSignal) =>
  get('/api/v1/reviews', { query: { limit: PAGE, ...(project && { project }), ...(agent && { agent }), ...(after && { after }) }, signal });
/** With what each side made of the base, as differences. */
export const reviewDiffs = (id: string, signal?: AbortSignal) => get(ONE, { path: { review: id }, signal });
export const reviewContent = (id: string, signal?: AbortSignal) => get(`${ONE}/content`, { path: { review: id }, signal });
export const resolveReview = (id: string, body: ResolveRequest) => post(`${ONE}/resolve`, { path: { review: id }, body });
export const resolveMany = (reviews: string[], choice: PartChoice, dryRun: boolean) =>
  post('/api/v1/reviews/resolve', { body: { reviews, choice, dry_run: dryRun } });
export const propose = (id: string, content: string, note: string) =>
  post(`${ONE}/candidates`, { path: { review: id }, body: { content, note: note || null } });

/** The texts as a decision would make them; nothing is stored. */
export const tryParts = (path: string, texts: { base: string; ours: string; theirs: string }, parts: Record<string, PartChoice>, signal?: AbortSignal) =>
  post('/api/v1/merge', { body: { path, ...texts, parts, choice: 'ours' }, signal });

/** Where the whole of one side is, for what is too large or no text. */
export const sideAddress = (id: string, side: string) => address(`${ONE}/sides/{side}`, { review: id, side });

export async function sideBytes(id: string, side: string, signal?: AbortSignal): Promise<Result<Blob>> {
  return bodyOf(await raw('GET', sideAddress(id, side), signal ? { signal } : {}), (response) => response.blob());
}

export const mergeOf = (merge: string, signal?: AbortSignal) => get('/api/v1/merges/{merge}', { path: { merge }, signal });
export const policyOf = (project: string, signal?: AbortSignal) => get('/api/v1/projects/{project}/policy', { path: { project }, signal });
export const setPolicies = (project: string, policies: { path: string; policy: PolicyWord }[]) =>
  put('/api/v1/projects/{project}/policy', { path: { project }, body: { policies } });

/** Gives a path of a project its earlier content, if nobody changed it since the snapshot `at`. */
export async function putBack(project: string, path: string, bytes: BodyInit, at: string): Promise<Result<unknown>> {
  const made = await raw('HEAD', address(PROJECT_FILE, { project, path }, { at }));
  if (!made.ok && made.problem.status !== 404) return made;
  const tag = made.ok ? made.headers.get('etag') : null;
  const headers = { 'content-type': 'application/octet-stream', ...(tag ? { 'if-match': tag } : { 'if-none-match': '*' }) };
  return raw('PUT', address(PROJECT_FILE, { project, path }), { body: bytes, headers });
}
