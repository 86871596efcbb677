// Who this browser is to the server: a cookie, which is not readable here. The server tells the
// value that changes have to carry beside it.

let csrf: string | null = null;
let lost: () => void = () => {};

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
  return csrf !== null && method !== 'GET' ? { 'offshoot-csrf': csrf } : {};
}
