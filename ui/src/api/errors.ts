// An error as a value: what the server said, and what a person can do about it.

export interface Problem {
  /** One of the server's closed list, or `unreachable` and `aborted`, which are ours. */
  code: string;
  message: string;
  hint?: string;
  details?: unknown;
  status: number;
  requestId?: string;
}

export type Result<T> = { ok: true; data: T; headers: Headers } | { ok: false; problem: Problem };

export const ABORTED = 'aborted';
export const UNREACHABLE = 'unreachable';

/** What a thrown error of `fetch` means: somebody cancelled, or nobody answers. */
export function thrown(error: unknown): Problem {
  const isAbort = error instanceof DOMException && error.name === 'AbortError';
  return { code: isAbort ? ABORTED : UNREACHABLE, message: isAbort ? '' : String(error), status: 0 };
}

/** The problem in an answer that is none of 2xx. */
export function problemOf(status: number, body: string, requestId: string | null): Problem {
  const problem: Problem = { code: 'internal', message: `${status}`, status };
  if (requestId) problem.requestId = requestId;
  try {
    const { error } = JSON.parse(body) as { error?: Partial<Problem> };
    if (error?.code) problem.code = error.code;
    if (error?.message) problem.message = error.message;
    if (error?.hint) problem.hint = error.hint;
    if (error?.details !== undefined) problem.details = error.details;
  } catch {
    // A proxy in between answers with pages of its own when the server is gone.
    if (status >= 500) problem.code = UNREACHABLE;
  }
  return problem;
}
