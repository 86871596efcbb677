// Who this browser is to the server: half of a token in a cookie, which is not readable here, and half
// in the storage of this origin, which no other port of the host can read. All tabs share both.

/** Where the half of the page is kept; the server's page after a sign-in writes it too. */
const KEY = 'offshoot.page';
let lost: () => void = () => {};

export function keepPage(half: string | null): void {
  if (half === null) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, half);
}

/** Called when a request was refused for want of a sign-in. */
export function onSignedOut(call: () => void): void {
  lost = call;
}

export function signedOut(): void {
  lost();
}

/** What every request has to carry. Read each time, because another tab may have signed in anew. */
export function credentials(): Record<string, string> {
  const half = localStorage.getItem(KEY);
  // Whatever else stands there is no header and no half.
  return half && /^[\w+/=-]+$/.test(half) ? { 'offshoot-page': half } : {};
}
