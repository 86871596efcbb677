// Signing in and out.
import { bodyOf, get, post, raw, type Schemas } from './client';
import type { Problem, Result } from './errors';
import { keepPage } from './session';

export type Me = Schemas['Me'];

export const me = () => get('/api/v1/me', {});
export const capabilities = () => get('/api/v1/capabilities', {});
/** A token becomes the sign-in of this browser, as a link does. */
export async function signIn(token: string): Promise<Problem | null> {
  const init = { body: JSON.stringify({ token }), headers: { accept: 'application/json', 'content-type': 'application/json' } };
  const answer = await bodyOf(await raw('POST', '/sign-in', init), (response) => response.json() as Promise<Schemas['SignedIn']>);
  if (!answer.ok) return answer.problem;
  keepPage(answer.data.page);
  return null;
}
export async function signOut(): Promise<void> {
  await raw('POST', '/sign-out');
  keepPage(null);
}

/** An address of the API that the browser fetches by itself, without our header: it works once. */
export async function ticket(address: string): Promise<Result<string>> {
  const answer = await post('/api/v1/tickets', { body: { address } });
  return answer.ok ? { ...answer, data: answer.data.address } : answer;
}

/** Where the one-time link of the server leads, with the way back to where we are. */
export const signInAddress = (code: string, next: string) =>
  `/sign-in?code=${encodeURIComponent(code)}&next=${encodeURIComponent(next)}`;
