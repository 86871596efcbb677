// Which view answers which address. A view is loaded when it is first asked for.
import type { Component } from 'svelte';
import { match } from './router.svelte';

/** What every view gets: the values of its pattern. The query is in `router.route`. */
export interface ViewProps {
  params: Record<string, string>;
}

type View = Component<ViewProps>;
interface Entry {
  pattern: string;
  load: () => Promise<{ default: View }>;
}

const project = () => import('~/views/project/Project.svelte');
const workspace = () => import('~/views/workspace/Workspace.svelte');
const reviews = () => import('~/views/reviews/Reviews.svelte');
const settings = () => import('~/views/settings/Settings.svelte');

export const routes: Entry[] = [
  { pattern: '/', load: () => import('~/views/home/Home.svelte') },
  { pattern: '/p', load: () => import('~/views/project/Projects.svelte') },
  { pattern: '/p/:project', load: project },
  { pattern: '/p/:project/:tab', load: project },
  { pattern: '/p/:project/:tab/*path', load: project },
  { pattern: '/w/:workspace', load: workspace },
  { pattern: '/w/:workspace/:tab', load: workspace },
  { pattern: '/w/:workspace/:tab/*path', load: workspace },
  { pattern: '/reviews', load: reviews },
  { pattern: '/reviews/:review', load: reviews },
  { pattern: '/agents', load: () => import('~/views/agents/Agents.svelte') },
  { pattern: '/settings', load: settings },
  { pattern: '/settings/:tab', load: settings },
];

export function find(path: string): { entry: Entry; params: Record<string, string> } | null {
  for (const entry of routes) {
    const params = match(entry.pattern, path);
    if (params) return { entry, params };
  }
  return null;
}

/** Whether a view answers this address. Views link to others only if they are there. */
export const exists = (href: string) => find(href.replace(/[?#].*$/, '')) !== null;
