// What every test uses: commands of the binary, pages that fail on errors of the CSP or of scripts.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test as base, type Page } from '@playwright/test';

export { expect };
export const at = (path: string) => `${process.env.OFFSHOOT_PAGES}${path}`;

/** What a request by the cookie of the sign-in needs beside it. */
export const half = () => ({ 'Offshoot-Page': process.env.OFFSHOOT_HALF! });

/** Runs a command and gives what it prints. */
export function offshoot(args: string[], input?: string): string {
  return execFileSync(process.env.OFFSHOOT_BIN!, ['--quiet', ...args], { input, encoding: 'utf8', stdio: ['pipe', 'pipe', 'ignore'] }).trim();
}

/** Like `offshoot`, where conflicts (exit code 3) are what is wanted. */
export function tolerant(args: string[]): void {
  try { offshoot(args); } catch (error) { if ((error as { status?: number }).status !== 3) throw error; }
}

/** A directory with files, to make a project from. */
export function directory(files: Record<string, string>): string {
  const dir = mkdtempSync(join(tmpdir(), 'offshoot-ui-source-'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text);
  return dir;
}

export const test = base.extend<{ faults: string[]; page: Page }>({
  faults: async ({}, use) => {
    const faults: string[] = [];
    await use(faults);
    expect(faults).toEqual([]);
  },
  page: async ({ page, faults }, use) => {
    watch(page, faults);
    await use(page);
  },
});

/** Notes everything that a page does wrong. */
export function watch(page: Page, faults: string[]): void {
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('console', (message) => {
    if (/Content Security Policy|Trusted Type|violates/i.test(message.text())) faults.push(message.text());
  });
  page.on('dialog', (dialog) => { faults.push(`a script ran: ${dialog.message()}`); void dialog.dismiss(); });
}
