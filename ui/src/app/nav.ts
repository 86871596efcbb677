// The places in the rail, each with its key. A view that belongs there adds a line.
import type { Component } from 'svelte';
import Box from '@lucide/svelte/icons/box';
import House from '@lucide/svelte/icons/house';
import type { Key } from '~/text/t.svelte';
import { overviewState } from '~/state/overview.svelte';
import { links } from './links';

export interface Place {
  title: Key;
  href: string;
  icon: Component<{ size?: number }>;
  key: string;
  isCurrent: (path: string) => boolean;
  /** A number that waits for somebody. */
  count?: () => number;
}

export const places: Place[] = [
  { title: 'shell.home', href: links.home(), icon: House, key: 'g h', isCurrent: (path) => path === '/', count: () => overviewState.reviews.length },
  { title: 'project.projects', href: links.projects(), icon: Box, key: 'g p', isCurrent: (path) => /^\/p(\/|$)/.test(path) },
];
