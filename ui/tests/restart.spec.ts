// The server goes and comes back under an open page, and sign-in links work once.
import { expect, test, watch } from './kit';
import { Own } from './own';

const own = new Own();
test.afterAll(() => own.remove());

test('a server that is gone is said, and what happened meanwhile shows without a reload', async ({ browser, faults }) => {
  const link = await own.start();
  own.command(['workspace', 'create', 'stays']);
  own.command(['put', 'stays', 'before.txt'], 'one\n');
  const context = await browser.newContext({ storageState: { cookies: [], origins: [] } });
  const page = await context.newPage();
  watch(page, faults);
  // The page of the link goes on by itself.
  await page.goto(`${link.href}&next=/w/stays/f/`, { waitUntil: 'commit' });
  await expect(page.getByRole('gridcell', { name: 'before.txt' })).toBeVisible();
  await page.evaluate(() => { (window as { kept?: boolean }).kept = true; });

  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    await expect(page.getByText('Not live')).toHaveCount(0);
    await own.stop(signal);
    await expect(page.getByText('Not live').first()).toBeVisible();
    // What was read stays.
    await expect(page.getByRole('gridcell', { name: 'before.txt' })).toBeVisible();
    // Written while nobody answers.
    own.command(['put', 'stays', `${signal}.txt`], 'two\n');
    await own.start();
    await expect(page.getByRole('gridcell', { name: `${signal}.txt` })).toBeVisible({ timeout: 60_000 });
    await expect(page.getByText('Not live')).toHaveCount(0);
    own.command(['put', 'stays', `after-${signal}.txt`], 'three\n');
    await expect(page.getByRole('gridcell', { name: `after-${signal}.txt` })).toBeVisible();
  }
  expect(await page.evaluate(() => (window as { kept?: boolean }).kept)).toBe(true);

  // The link that is used up signs nobody in, and one page's sign-in ends in all of them.
  const other = await browser.newContext({ storageState: { cookies: [], origins: [] } });
  const second = await other.newPage();
  await second.goto(`${own.url}/sign-in${link.search}`);
  await expect(second.getByRole('heading', { name: 'This link was used before, or is too old' })).toBeVisible();
  expect(await other.cookies()).toEqual([]);
  await other.close();
  await context.close();
});
