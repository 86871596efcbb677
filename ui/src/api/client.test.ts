import { expect, test } from 'vitest';
import { address, bodyOf } from './client';
import { ABORTED, problemOf, UNREACHABLE } from './errors';

test('an address has its values in their places', () => {
  const route = '/api/v1/workspaces/{workspace}/files/{path}';
  expect(address(route, { workspace: 'a/b', path: 'x/y z' }, { preview: true, at: undefined })).toBe('/api/v1/workspaces/a%2Fb/files/x/y%20z?preview=true');
  // In the query, too, a path is bytes.
  expect(address('/list', {}, { path: 'caf\\xE9/\\x5Cx a', after: '\\xE9' })).toBe('/list?path=caf%E9%2F%5Cx%20a&after=%5CxE9');
});

test('an error keeps code, hint and request; a page of a proxy is the server gone', () => {
  const body = '{"error":{"code":"file_not_found","message":"no","hint":"look"}}';
  expect(problemOf(404, body, 'r1')).toEqual({ code: 'file_not_found', message: 'no', hint: 'look', status: 404, requestId: 'r1' });
  expect(problemOf(502, '<html>', null).code).toBe('unreachable');
});

test('a body that is given up or breaks off is a problem like any other', async () => {
  const answer = { ok: true, data: new Response(), headers: new Headers() } as const;
  const failing = (error: Error) => bodyOf(answer, () => Promise.reject(error));
  expect(await failing(new DOMException('', 'AbortError'))).toMatchObject({ ok: false, problem: { code: ABORTED } });
  expect(await failing(new TypeError('network'))).toMatchObject({ ok: false, problem: { code: UNREACHABLE } });
});
