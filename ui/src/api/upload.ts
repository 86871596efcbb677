// Uploads with progress. `fetch` tells none about what it sends, so this is XMLHttpRequest.
import { address, type Schemas } from './client';
import { problemOf, UNREACHABLE, ABORTED, type Result } from './errors';
import { credentials } from './session';

export type Uploaded = Schemas['Upload'];

export interface Transfer {
  done: Promise<Result<{ name: string; path: string; size: number }>>;
  cancel: () => void;
}

function send(method: string, url: string, body: XMLHttpRequestBodyInit, headers: Record<string, string>, onProgress: (part: number) => void) {
  const request = new XMLHttpRequest();
  const done = new Promise<Result<string>>((resolve) => {
    const failed = (code: string) => () => resolve({ ok: false, problem: { code, message: '', status: 0 } });
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onerror = failed(UNREACHABLE);
    request.onabort = failed(ABORTED);
    request.onload = () => {
      const { status, responseText } = request;
      if (status >= 200 && status < 300) resolve({ ok: true, data: responseText, headers: new Headers() });
      else resolve({ ok: false, problem: problemOf(status, responseText, request.getResponseHeader('x-request-id')) });
    };
  });
  request.open(method, url);
  for (const [name, value] of Object.entries({ ...credentials(), ...headers })) request.setRequestHeader(name, value);
  request.send(body);
  return { done, cancel: () => request.abort() };
}

/** A file into a directory, never over another: the answer has the name that it got. */
export function upload(workspace: string, path: string, file: File, onProgress: (part: number) => void): Transfer {
  const url = address('/api/v1/workspaces/{workspace}/files/{path}', { workspace, path });
  const sent = send('PUT', url, file, { 'if-none-match': '*', 'content-type': file.type || 'application/octet-stream' }, onProgress);
  const done = sent.done.then((answer) => {
    if (!answer.ok) return answer;
    const written = JSON.parse(answer.data) as Schemas['Written'];
    return { ...answer, data: { name: path.slice(path.lastIndexOf('/') + 1), path: written.path, size: written.size } };
  });
  return { done, cancel: sent.cancel };
}
