// `npm run screenshots`: the server and the browser of the tests, for the pictures of the documentation.
import { defineConfig } from '@playwright/test';
import tests from './playwright.config';

export default defineConfig({ ...tests, testDir: 'tests/screenshots', testMatch: 'take.ts', globalSetup: ['./tests/setup.ts', './tests/screenshots/setup.ts'], timeout: 90_000, workers: 2, fullyParallel: true, projects: [{ name: 'screenshots' }] });
