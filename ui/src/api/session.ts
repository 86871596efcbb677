// Who this browser is to the server: a cookie with its CSRF value, or a token that was pasted.
//
// A pasted token is kept for this tab alone (sessionStorage). A cookie is not readable here; the
// server tells the value that changes have to carry.

const PLACE = 'offshoot.token';

let bearer = read();
let csrf: string | null = null;
let lost: () => void = () => {};

function read(): string | null {
  try {
    return sessionStorage.getItem(PLACE);
  } catch {
    return null;
  }
}

export function usesToken(): boolean {
  return bearer !== null;
}

export function useToken(token: string | null): void {
  bearer = token;
  try {
    if (token === null) sessionStorage.removeItem(PLACE);
    else sessionStorage.setItem(PLACE, token);
  } catch {
    // Without storage it lasts until the page is left.
  }
}

export function setCsrf(value: string | null | undefined): void {
  csrf = value ?? null;
}

/** Called when a request was refused for want of a sign-in. */
export function onSignedOut(call: () => void): void {
  lost = call;
}

export function signedOut(): void {
  lost();
}

export function credentials(method: string): Record<string, string> {
  if (bearer !== null) return { authorization: `Bearer ${bearer}` };
  return csrf !== null && method !== 'GET' ? { 'offshoot-csrf': csrf } : {};
}
