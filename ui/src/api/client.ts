// The one way to the server: typed by the generated schema, errors as values.
import { problemOf, thrown, type Result } from './errors';
import { encodePath, encodeSegment } from './paths';
import type { components, paths } from './schema';
import { credentials, signedOut } from './session';

export type Schemas = components['schemas'];
type Method = 'get' | 'put' | 'post' | 'delete';
type Place<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, { responses: object }> ? P : never;
}[keyof paths];
type Operation<P extends keyof paths, M extends Method> = paths[P] extends Record<M, infer O> ? O : never;
type Json<R> = R extends { content: { 'application/json': infer T } } ? T : never;
type Answer<O> = O extends { responses: infer R } ? Json<R[keyof R & (200 | 201)]> : never;
type PathOf<O> = O extends { parameters: { path: infer T } } ? { path: T } : { path?: never };
type QueryOf<O> = O extends { parameters: { query?: infer T } } ? { query?: T } : { query?: never };
type BodyOf<O> = O extends { requestBody?: { content: { 'application/json': infer T } } } ? { body?: T } : { body?: never };
interface Extra {
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
}
export type Options<O> = PathOf<O> & QueryOf<O> & BodyOf<O> & Extra;

/** The address of a route; `{path}` takes slashes, every other name is one part. */
export function address(route: string, path: object = {}, query: object = {}): string {
  const values = path as Record<string, string>;
  let url = route.replace(/\{(\w+)\}/g, (_, name: string) =>
    name === 'path' ? encodePath(values[name] ?? '') : encodeSegment(values[name] ?? ''),
  );
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== false);
  // A path in the query is bytes as well: `\x5C` in its text is one of them.
  const text = given.map(([name, value]) => `${name}=${name === 'path' ? encodeSegment(String(value)) : encodeURIComponent(String(value))}`);
  if (text.length) url += `?${text.join('&')}`;
  return url;
}

/** A request whose answer is not read yet. */
export async function raw(method: string, url: string, init: RequestInit = {}): Promise<Result<Response>> {
  try {
    const answer = await fetch(url, {
      ...init,
      method,
      credentials: 'same-origin',
      headers: { ...credentials(), ...(init.headers as Record<string, string>) },
    });
    if (answer.ok) return { ok: true, data: answer, headers: answer.headers };
    const problem = problemOf(answer.status, await answer.text(), answer.headers.get('x-request-id'));
    if (answer.status === 401) signedOut();
    return { ok: false, problem };
  } catch (error) {
    return { ok: false, problem: thrown(error) };
  }
}

/** The body of an answer. It may break off in the middle, or be given up. */
export async function bodyOf<T>(answer: Result<Response>, read: (response: Response) => Promise<T>): Promise<Result<T>> {
  if (!answer.ok) return answer;
  try {
    return { ok: true, data: await read(answer.data), headers: answer.headers };
  } catch (error) {
    return { ok: false, problem: thrown(error) };
  }
}

interface Plain extends Extra {
  path?: unknown;
  query?: unknown;
  body?: unknown;
}

async function call<T>(method: string, route: string, options: Plain): Promise<Result<T>> {
  const { path, query, body, headers, signal } = options;
  const init: RequestInit = { headers: { accept: 'application/json', ...headers } };
  if (signal) init.signal = signal;
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { ...init.headers, 'content-type': 'application/json' };
  }
  const answer = await raw(method, address(route, path as object, query as object), init);
  return bodyOf(answer, (response) => response.json() as Promise<T>);
}

export function get<P extends Place<'get'>>(route: P, options: Options<Operation<P, 'get'>>): Promise<Result<Answer<Operation<P, 'get'>>>> {
  return call('GET', route, options);
}
export function post<P extends Place<'post'>>(route: P, options: Options<Operation<P, 'post'>>): Promise<Result<Answer<Operation<P, 'post'>>>> {
  return call('POST', route, options);
}
export function put<P extends Place<'put'>>(route: P, options: Options<Operation<P, 'put'>>): Promise<Result<Answer<Operation<P, 'put'>>>> {
  return call('PUT', route, options);
}
export function remove<P extends Place<'delete'>>(route: P, options: Options<Operation<P, 'delete'>>): Promise<Result<Answer<Operation<P, 'delete'>>>> {
  return call('DELETE', route, options);
}
