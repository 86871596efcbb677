import { expect, test } from 'vitest';
import { address } from './client';
import { problemOf } from './errors';

test('an address has its values in their places', () => {
  const route = '/api/v1/workspaces/{workspace}/files/{path}';
  expect(address(route, { workspace: 'a/b', path: 'x/y z' }, { preview: true, at: undefined })).toBe('/api/v1/workspaces/a%2Fb/files/x/y%20z?preview=true');
});

test('an error keeps code, hint and request; a page of a proxy is the server gone', () => {
  const body = '{"error":{"code":"file_not_found","message":"no","hint":"look"}}';
  expect(problemOf(404, body, 'r1')).toEqual({ code: 'file_not_found', message: 'no', hint: 'look', status: 404, requestId: 'r1' });
  expect(problemOf(502, '<html>', null).code).toBe('unreachable');
});
