// The same keys as English; the type says which are missing.
import type { en } from '../en';
import { agents } from './agents';
import { home } from './home';
import { reviews } from './reviews';
import { settings } from './settings';
import { shell } from './shell';
import { project } from './project';
import { time } from './time';
import { ui } from './ui';
import { workspace } from './workspace';

export const zh: Record<keyof typeof en, string> = { ...ui, ...shell, ...home, ...workspace, ...time, ...project, ...reviews, ...agents, ...settings };
