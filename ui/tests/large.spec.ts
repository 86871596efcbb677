// A hundred thousand files, in one directory and in many: the page stays quick and small.
// Limits are generous, for machines that do other things; the figures are printed.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from '@playwright/test';
import { at, expect, offshoot, test, watch } from './kit';

const FILES = 100_000;
/** What a quiet machine needs less than a second for. */
const OPENS = 20_000;
const MEMORY = 300 * 1024 * 1024;
const shapes = {
  flat: (i: number): [string, string] => ['', `file-${String(i).padStart(6, '0')}.txt`],
  nested: (i: number): [string, string] => [`d${String(i % 100).padStart(2, '0')}/e${String(Math.floor(i / 100) % 20).padStart(2, '0')}`, `file-${String(i).padStart(6, '0')}.txt`],
} satisfies Record<string, (i: number) => [string, string]>;

/** A fork with so many files. */
function make(name: keyof typeof shapes): void {
  const dir = mkdtempSync(join(tmpdir(), 'offshoot-ui-large-'));
  const made = new Set<string>();
  for (let i = 0; i < FILES; i += 1) {
    const [below, file] = shapes[name](i);
    if (!made.has(below)) mkdirSync(join(dir, below), { recursive: true });
    made.add(below);
    writeFileSync(join(dir, below, file), `${i}\n`);
  }
  offshoot(['project', 'create', `large-${name}`, '--from', dir]);
  rmSync(dir, { recursive: true });
  offshoot(['fork', `large-${name}`, '--agent', `large-${name}`]);
}

/** What the process of the page holds, all of it. */
async function memoryOf(browser: Browser): Promise<number> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  await session.detach();
  const sizes = processInfo.filter((one) => one.type === 'renderer').map(({ id }) => {
    const found = /^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${id}/smaps_rollup`, 'utf8'));
    return Number(found?.[1] ?? 0) * 1024;
  });
  return Math.max(...sizes);
}

for (const name of ['flat', 'nested'] as const) {
  test(`a hundred thousand files, ${name}, open at once and stay small`, async ({ browser, faults }) => {
    test.setTimeout(900_000);
    make(name);
    const [dir, last] = shapes[name](FILES - 1);
    const context = await browser.newContext({ storageState: 'test-results/signed-in.json' });
    await context.addInitScript(() => {
      const seen = new MutationObserver(() => {
        if (document.querySelectorAll('[role=gridcell]').length < 10) return;
        seen.disconnect();
        (window as { opened?: number }).opened = performance.now();
      });
      seen.observe(document, { subtree: true, childList: true });
    });
    const page = await context.newPage();
    watch(page, faults);
    const opened = async () => {
      await expect(page.getByRole('gridcell').first()).toBeVisible({ timeout: 60_000 });
      return (await page.waitForFunction(() => (window as { opened?: number }).opened)).jsonValue() as Promise<number>;
    };
    await page.goto(at(`/w/large-${name}/f/`));
    const cold = await opened();
    await page.reload();
    const again = await opened();
    expect(cold).toBeLessThan(OPENS);

    if (dir) await page.goto(at(`/w/large-${name}/f/${dir}/`));
    const grid = page.getByRole('grid');
    // The end comes nearer as it is scrolled to.
    let most = 0;
    const began = Date.now();
    await expect.poll(async () => {
      await grid.evaluate((box) => { box.scrollTop = box.scrollHeight; });
      most = Math.max(most, await page.getByRole('row').count());
      return page.getByRole('gridcell', { name: last, exact: true }).count();
    }, { timeout: 300_000, intervals: [50] }).toBe(1);
    const scrolled = Date.now() - began;
    expect(most).toBeLessThan(100);
    const held = await memoryOf(browser);
    const session = await context.newCDPSession(page);
    await session.send('Performance.enable');
    const { metrics } = await session.send('Performance.getMetrics');
    const heap = metrics.find((one) => one.name === 'JSHeapUsedSize')?.value ?? 0;
    const mb = (size: number) => `${Math.round(size / 1024 / 1024)} MB`;
    console.log(`${name}: opened in ${Math.round(cold)} ms, again ${Math.round(again)} ms; end after ${scrolled} ms; at most ${most} rows; heap ${mb(heap)}, page ${mb(held)}; load ${loadavg()[0]!.toFixed(1)}`);
    expect(held).toBeLessThan(MEMORY);

    // It is still live at the end of it, and by keys back at the top.
    offshoot(['put', `large-${name}`, `${dir ? `${dir}/` : ''}zz-last.txt`], 'x\n');
    await expect.poll(async () => {
      await grid.evaluate((box) => { box.scrollTop = box.scrollHeight; });
      return page.getByRole('gridcell', { name: 'zz-last.txt' }).count();
    }).toBe(1);
    await context.close();
  });
}
