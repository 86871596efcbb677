// Tests in a real browser against a real `offshoot serve` (OFFSHOOT_BIN) and the UI that it serves.
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { defineConfig } from '@playwright/test';

/** The Chromium of the system: what CHROMIUM names, or the first of that name on the way. */
function chromium(): string {
  const found = (process.env.PATH ?? '').split(delimiter).map((dir) => join(dir, 'chromium')).find((file) => existsSync(file));
  const browser = process.env.CHROMIUM || found;
  if (!browser) throw new Error('install Chromium, or name it in CHROMIUM');
  return browser;
}

export default defineConfig({
  testDir: 'tests',
  // What hostile agents leave on the server comes last, so that it is not among what others look for.
  // A hundred thousand files take minutes: only when they are asked for.
  projects: [
    { name: 'views', testIgnore: ['**/hostile.spec.ts', '**/large.spec.ts'] },
    { name: 'hostile', testMatch: '**/hostile.spec.ts', dependencies: ['views'] },
    ...(process.env.OFFSHOOT_LARGE ? [{ name: 'large', testMatch: '**/large.spec.ts' }] : []),
  ],
  globalSetup: './tests/setup.ts',
  workers: 2,
  // For a machine that does other things too; a test that passes waits for none of it.
  timeout: 120_000,
  expect: { timeout: 20_000 },
  forbidOnly: !!process.env.CI,
  reporter: 'list',
  outputDir: 'test-results',
  use: {
    viewport: { width: 1280, height: 800 },
    storageState: 'test-results/signed-in.json',
    launchOptions: {
      executablePath: chromium(),
      args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'],
    },
  },
});
