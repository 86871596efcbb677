// The URL is the state. Links are real links: this only keeps the page when one is followed.
import { isWay } from '~/api/paths';

export interface Route {
  path: string;
  query: URLSearchParams;
  hash: string;
}

function now(): Route {
  const { pathname, search, hash } = window.location;
  return { path: pathname, query: new URLSearchParams(search), hash: hash.slice(1) };
}

class Router {
  route = $state.raw<Route>(now());
  /** Asked before the page is left; an answer of false keeps it (unsaved text). */
  guards = new Set<(to: string) => boolean>();

  start(): void {
    window.addEventListener('popstate', () => (this.route = now()));
    document.addEventListener('click', (event) => {
      if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
      const link = (event.target as Element).closest?.('a[href]');
      if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute('download')) return;
      if (link.origin !== location.origin || /^\/(api|sign-in|docs)\b/.test(link.pathname)) return;
      event.preventDefault();
      this.go(link.pathname + link.search + link.hash);
    });
  }

  go(to: string, how: { replace?: boolean } = {}): void {
    const here = location.pathname + location.search + location.hash;
    if (to === here) return;
    for (const guard of this.guards) if (!guard(to)) return;
    history[how.replace ? 'replaceState' : 'pushState'](null, '', to);
    this.route = now();
  }
}

export const router = new Router();
export const go = (to: string, how?: { replace?: boolean }) => router.go(to, how);

/** Values of a pattern such as `/w/:workspace/f/*path` in a path, or null. Values are decoded. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const names: string[] = [];
  const source = pattern.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replace(/([:*])(\w+)/g, (_, kind: string, name: string) => {
    names.push(name);
    return kind === '*' ? '(.*)' : '([^/]+)';
  });
  const found = new RegExp(`^${source}$`).exec(path);
  if (!found) return null;
  try {
    const values = names.map((name, i) => [name, (found[i + 1] ?? '').split('/').map(decodeURIComponent).join('/')] as const);
    // A `%2F` may hide a way up in an address that somebody was sent.
    return values.some(([, value]) => value.split('/').some(isWay)) ? null : Object.fromEntries(values);
  } catch {
    return null;
  }
}
