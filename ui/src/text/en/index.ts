// One file for each view, so that people who work on different views do not meet here.
import { agents } from './agents';
import { home } from './home';
import { reviews } from './reviews';
import { settings } from './settings';
import { shell } from './shell';
import { project } from './project';
import { time } from './time';
import { ui } from './ui';
import { workspace } from './workspace';

export const en = { ...ui, ...shell, ...home, ...workspace, ...time, ...project, ...reviews, ...agents, ...settings };
