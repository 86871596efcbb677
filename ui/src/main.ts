// The beginning: preferences, who is signed in, then the shell.
import { mount } from 'svelte';
import './look/tokens.css';
import './look/base.css';
import App from './app/App.svelte';
import { commands } from './app/commands.svelte';
import { preferences } from './app/preferences.svelte';
import { router } from './app/router.svelte';
import { find } from './app/routes';
import { session } from './state/session.svelte';

// The view of the address is on its way while the server says who we are.
void find(location.pathname)?.entry.load().catch(() => undefined);
await preferences.start();
router.start();
commands.start();
mount(App, { target: document.getElementById('app')! });
void session.start();
