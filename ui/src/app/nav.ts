// The places in the rail, each with its key. A view that belongs there adds a line.
import type { Component } from 'svelte';
import Bot from '@lucide/svelte/icons/bot';
import Box from '@lucide/svelte/icons/box';
import GitMerge from '@lucide/svelte/icons/git-merge';
import House from '@lucide/svelte/icons/house';
import Settings from '@lucide/svelte/icons/settings';
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
  { title: 'shell.home', href: links.home(), icon: House, key: 'g h', isCurrent: (path) => path === '/' },
  { title: 'project.projects', href: links.projects(), icon: Box, key: 'g p', isCurrent: (path) => /^\/p(\/|$)/.test(path) },
  { title: 'shell.reviews', href: links.reviews(), icon: GitMerge, key: 'g r', isCurrent: (path) => path.startsWith('/reviews'), count: () => overviewState.reviews.length },
  { title: 'shell.agents', href: links.agents(), icon: Bot, key: 'g a', isCurrent: (path) => path.startsWith('/agents') },
  { title: 'shell.settings', href: links.settings(), icon: Settings, key: 'g s', isCurrent: (path) => path.startsWith('/settings') },
];
