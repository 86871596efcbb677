import type { Page } from '@playwright/test';
import { look, seriousFaults } from './axe';
import { at, directory, expect, offshoot, test, watch } from './kit';
import { Own } from './own';

test('home teaches the first step, then shows the board', async ({ browser, faults }) => {
  // Only an empty server has a first step to teach.
  const own = new Own();
  const context = await browser.newContext({ storageState: { cookies: [], origins: [] } });
  try {
    const link = await own.start();
    const page = await context.newPage();
    watch(page, faults);
    await page.goto(link.href, { waitUntil: 'commit' });
    await expect(page.getByText('offshoot project create app')).toBeVisible();
    // Neither half of the sign-in is in the address, nor the link in the history.
    expect(page.url()).toBe(`${own.url}/`);
    expect(await page.evaluate(() => document.referrer)).toBe('');

    own.command(['project', 'create', 'board', '--from', directory({ 'README.md': 'Welcome.\n', 'app.json': '{"port": 1}\n' })]);
    for (const [agent, text] of [['hana', 'Hello.\n'], ['ivo', 'Hi there.\n'], ['jon', 'Good day.\n']] as const) {
      own.command(['fork', 'board', '--agent', agent]);
      own.command(['put', agent, 'README.md'], text);
    }
    own.command(['complete', 'hana']);
    own.tolerant(['complete', 'ivo']);

    // It fills without a reload.
    await expect(page.getByRole('heading', { name: 'Needs you' })).toBeVisible();
    await expect(page.getByText('README.md, line 1: a conflict')).toBeVisible();
    const board = page.getByRole('region', { name: 'Board of board' });
    await expect(board.getByText('1 file merged')).toBeVisible();
    await expect(board.getByText('! 1 review')).toBeVisible();
  } finally {
    await context.close();
    await own.remove();
  }
});

test('the palette goes to a workspace by keys', async ({ page }) => {
  offshoot(['workspace', 'create', 'palette-one']);
  await page.goto(at('/'));
  await expect(page.getByRole('link', { name: /palette-one/ })).toBeVisible();
  await page.keyboard.press('Control+k');
  await expect(page.getByRole('combobox')).toBeFocused();
  await page.keyboard.type('palette-o');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/w\/palette-one\/f\/$/);
});

test('a slash that is typed stays a slash, and `?` lists what can be done now', async ({ page }) => {
  offshoot(['project', 'create', 'typed', '--from', directory({ 'a.txt': 'a\n' })]);
  await page.goto(at('/p/typed/policy'));
  const pattern = page.getByRole('region', { name: 'Protected paths' }).getByLabel('Pattern');
  await pattern.click();
  await page.keyboard.type('docs/**');
  await expect(pattern).toHaveValue('docs/**');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await page.keyboard.press('Control+k');
  await expect(page.getByRole('combobox', { name: /command/ })).toBeFocused();

  offshoot(['workspace', 'create', 'keys']);
  offshoot(['put', 'keys', 'a.txt'], 'a\n');
  await page.goto(at('/w/keys/f/'));
  await expect(page.getByRole('gridcell', { name: 'a.txt' })).toBeVisible();
  const help = page.getByRole('dialog', { name: 'Keys' });
  await page.keyboard.press('?');
  await expect(help.getByText('New file')).toBeVisible();
  await expect(help.getByText('Rename')).toHaveCount(0);
  await page.keyboard.press('Escape');
  await expect(help).toHaveCount(0);
  await page.keyboard.press('j');
  await page.keyboard.press('?');
  await expect(help.getByText('Rename')).toBeVisible();
});

/** Pages, and what is there when they have loaded. */
const PAGES = { '/': 'axe', '/w/axe/f/': 'a.md', '/w/axe/f/a.md': 'Title', '/w/axe/changes': 'a.md', '/w/axe/use': 'offshoot', '/w/axe/disk': 'a.md' };
async function axe(page: Page): Promise<void> {
  for (const [path, sign] of Object.entries(PAGES)) {
    await page.goto(at(path));
    await expect(page.getByRole('main').getByText(sign).filter({ visible: true }).first(), path).toBeVisible();
    await expect(page.locator('.skeleton'), path).toHaveCount(0);
    expect(await seriousFaults(page), path).toEqual([]);
  }
}

test.describe('no serious fault of accessibility', () => {
  test.beforeAll(() => {
    if (offshoot(['workspace', 'list']).includes('axe')) return;
    offshoot(['workspace', 'create', 'axe']);
    offshoot(['put', 'axe', 'a.md', '--operator', 'ada'], '# Title\n\ntext\n');
  });
  for (const theme of ['light', 'dark'] as const) {
    test(`in ${theme}`, async ({ page }) => {
      await look(page, theme);
      await axe(page);
    });
  }
  test('on a phone, in Chinese', async ({ page }) => {
    await page.setViewportSize({ width: 390, height: 844 });
    await look(page, 'light', 'zh');
    await axe(page);
  });
});

test('signing in returns to the address that was asked for', async ({ browser }) => {
  const token = offshoot(['token', 'issue', '--admin']);
  offshoot(['workspace', 'create', 'asked']);
  const context = await browser.newContext({ storageState: { cookies: [], origins: [] } });
  const page = await context.newPage();
  await page.goto(at('/w/asked/use'));
  await page.getByLabel('Sign-in link or token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page.getByRole('heading', { name: 'When the work is done' })).toBeVisible();
  await expect(page).toHaveURL(/\/w\/asked\/use$/);
  // It is the browser that is signed in, not the tab; signing out ends it and keeps the token.
  const second = await context.newPage();
  await second.goto(at('/w/asked/use'));
  await expect(second.getByRole('heading', { name: 'When the work is done' })).toBeVisible();
  await second.goto(at('/settings/preferences'));
  await second.getByRole('button', { name: 'Sign out' }).click();
  await expect(second.getByRole('button', { name: 'Sign in' })).toBeVisible();
  expect(await second.evaluate(() => localStorage.getItem('offshoot.page'))).toBeNull();
  await second.goto(at('/w/asked/use'));
  await second.getByLabel('Sign-in link or token').fill(`${token}0`);
  await second.getByRole('button', { name: 'Sign in' }).click();
  await expect(second.getByText('this is no valid token')).toBeVisible();
  await second.getByLabel('Sign-in link or token').fill(token);
  await second.getByRole('button', { name: 'Sign in' }).click();
  await expect(second.getByRole('heading', { name: 'When the work is done' })).toBeVisible();
  await context.close();
});

test('a used link says what to do and goes on with a token', async ({ browser }) => {
  const context = await browser.newContext({ storageState: { cookies: [], origins: [] } });
  const page = await context.newPage();
  await page.goto(at('/sign-in?code=used&next=/w/asked/use'));
  await expect(page.getByRole('heading', { name: 'This link was used before, or is too old' })).toBeVisible();
  await page.getByLabel('Sign-in link or token').fill(offshoot(['token', 'issue', '--admin']));
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page).toHaveURL(/\/w\/asked\/use$/);
  await context.close();
});
