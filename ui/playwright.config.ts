// Smoke tests in a real browser against a real `offshoot serve` (OFFSHOOT_BIN) and the built UI.
import { defineConfig } from '@playwright/test';

export default defineConfig({
  testDir: 'tests',
  globalSetup: './tests/setup.ts',
  workers: 1,
  timeout: 30_000,
  reporter: 'list',
  outputDir: 'test-results',
  use: {
    viewport: { width: 1280, height: 800 },
    storageState: 'test-results/signed-in.json',
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'],
    },
  },
});
