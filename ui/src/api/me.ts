// Signing in and out.
import { get, raw, type Schemas } from './client';

export type Me = Schemas['Me'];

export const me = () => get('/api/v1/me', {});
export const capabilities = () => get('/api/v1/capabilities', {});
/** A token becomes the cookie of this browser, as a link does. */
export const signIn = (token: string) =>
  raw('POST', '/sign-in', { body: JSON.stringify({ token }), headers: { accept: 'application/json', 'content-type': 'application/json' } });
export const signOut = () => raw('POST', '/sign-out');

/** Where the one-time link of the server leads, with the way back to where we are. */
export const signInAddress = (code: string, next: string) =>
  `/sign-in?code=${encodeURIComponent(code)}&next=${encodeURIComponent(next)}`;
