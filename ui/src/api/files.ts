// Files of a workspace: bytes with their tag, conditional writes, moves.
import { address, bodyOf, get, post, raw, remove, type Schemas } from './client';
import type { Result } from './errors';

export type Metadata = Schemas['Metadata'];
export type Written = Schemas['Written'];

const FILE = '/api/v1/workspaces/{workspace}/files/{path}';

export interface Content {
  bytes: Uint8Array<ArrayBuffer>;
  /** git's id of the content, in quotes: what `If-Match` takes. */
  tag: string;
  type: string;
  /** The size of the whole file; more than `bytes` if only its beginning was read. */
  size: number;
}

/** The address of a file that a browser may show. */
export const previewAddress = (workspace: string, path: string) =>
  address(FILE, { workspace, path }, { preview: true });

/** When a file is read as it was: in a snapshot, or when the workspace had a version. */
export type Moment = { at?: string; version?: number };

/** A file, or its first `most` bytes. */
export function read(workspace: string, path: string, most: number, signal?: AbortSignal, moment: Moment = {}): Promise<Result<Content>> {
  return readFrom(address(FILE, { workspace, path }, moment), most, signal);
}

/** What is at an address of files, or its first `most` bytes. */
export async function readFrom(url: string, most: number, signal?: AbortSignal): Promise<Result<Content>> {
  // Chrome's cache puts ranges of two versions together: a file that grew came as long as it was.
  const init: RequestInit = { cache: 'no-store', headers: { range: `bytes=0-${most - 1}` }, ...(signal && { signal }) };
  let answer = await raw('GET', url, init);
  // An empty file has no range.
  if (!answer.ok && answer.problem.status === 416) {
    answer = await raw('GET', url, signal ? { signal } : {});
  }
  const content = await bodyOf(answer, (response) => response.arrayBuffer());
  if (!content.ok) return content;
  const { headers } = content;
  const bytes = new Uint8Array(content.data);
  const whole = headers.get('content-range')?.split('/')[1];
  const tag = headers.get('etag') ?? '';
  const type = (headers.get('content-type') ?? '').split(';')[0] ?? '';
  return { ok: true, headers, data: { bytes, tag, type, size: whole ? Number(whole) : bytes.length } };
}

/** The bytes at an address of files, such as a picture that a document shows. */
export async function blobAt(url: string): Promise<Result<Blob>> {
  return bodyOf(await raw('GET', url), (response) => response.blob());
}

/** A version that was: how a deleted file comes back without a snapshot. */
export async function readVersion(workspace: string, path: string, version: number): Promise<Result<Blob>> {
  return blobAt(address(FILE, { workspace, path }, { version }));
}

export type Condition = { match: string } | { absent: true } | undefined;

function conditions(condition: Condition): Record<string, string> {
  if (!condition) return {};
  return 'match' in condition ? { 'if-match': condition.match } : { 'if-none-match': '*' };
}

export async function write(workspace: string, path: string, body: BodyInit, condition?: Condition): Promise<Result<Written>> {
  const init = { body, headers: { 'content-type': 'application/octet-stream', ...conditions(condition) } };
  const answer = await raw('PUT', address(FILE, { workspace, path }), init);
  return bodyOf(answer, (response) => response.json() as Promise<Written>);
}

export const removePath = (workspace: string, path: string, recursive: boolean) =>
  remove(FILE, { path: { workspace, path }, query: { recursive } });
export const makeDir = (workspace: string, path: string) =>
  post('/api/v1/workspaces/{workspace}/mkdir', { path: { workspace }, body: { path } });
export const move = (workspace: string, from: string, to: string) =>
  post('/api/v1/workspaces/{workspace}/move', { path: { workspace }, body: { from, to } });
export const metadata = (workspace: string, path: string, signal?: AbortSignal) =>
  get('/api/v1/workspaces/{workspace}/metadata/{path}', { path: { workspace, path }, signal });

/** Three texts merged by the server; where both sides changed the same, `choice` decides. */
export const mergeTexts = (path: string, texts: { base: string; ours: string; theirs: string }, choice: 'union' | 'theirs') =>
  post('/api/v1/merge', { body: { path, ...texts, choice } });
