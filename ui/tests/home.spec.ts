import AxeBuilder from '@axe-core/playwright';
import { at, directory, expect, offshoot, test, tolerant } from './kit';

test('home teaches the first step, then shows the board', async ({ page }) => {
  await page.goto(at('/'));
  await expect(page.getByText('offshoot project create app')).toBeVisible();

  offshoot(['project', 'create', 'board', '--from', directory({ 'README.md': 'Welcome.\n', 'app.json': '{"port": 1}\n' })]);
  for (const [agent, text] of [['hana', 'Hello.\n'], ['ivo', 'Hi there.\n'], ['jon', 'Good day.\n']] as const) {
    offshoot(['fork', 'board', '--agent', agent]);
    offshoot(['put', agent, 'README.md'], text);
  }
  offshoot(['complete', 'hana']);
  tolerant(['complete', 'ivo']);

  // It fills without a reload.
  await expect(page.getByRole('heading', { name: 'Needs you' })).toBeVisible();
  await expect(page.getByText('README.md, line 1: a conflict')).toBeVisible();
  const board = page.getByRole('region', { name: 'Board of board' });
  await expect(board.getByText('1 file merged')).toBeVisible();
  await expect(board.getByText('! 1 review')).toBeVisible();
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

for (const theme of ['light', 'dark']) {
  for (const path of ['/', '/w/axe/f/', '/w/axe/f/a.md', '/w/axe/changes', '/w/axe/use', '/w/axe/disk']) {
    test(`no serious fault of accessibility: ${path} ${theme}`, async ({ page }) => {
      if (path === '/' && theme === 'light') {
        offshoot(['workspace', 'create', 'axe']);
        offshoot(['put', 'axe', 'a.md', '--operator', 'ada'], '# Title\n\ntext\n');
      }
      await page.addInitScript((kept) => localStorage.setItem('offshoot.theme', kept), theme);
      await page.goto(at(path));
      await page.waitForLoadState('networkidle', { timeout: 2000 }).catch(() => undefined);
      const { violations } = await new AxeBuilder({ page }).analyze();
      const serious = violations.filter((fault) => fault.impact === 'serious' || fault.impact === 'critical');
      expect(serious.map((fault) => `${fault.id}: ${fault.nodes.map((node) => node.html.slice(0, 160)).join(' | ')}`)).toEqual([]);
    });
  }
}

test('no serious fault of accessibility on a phone, in Chinese', async ({ page }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await page.addInitScript(() => localStorage.setItem('offshoot.language', 'zh'));
  for (const path of ['/', '/w/axe/f/', '/w/axe/f/a.md', '/w/axe/changes']) {
    await page.goto(at(path));
    await page.waitForTimeout(600);
    const { violations } = await new AxeBuilder({ page }).analyze();
    expect(violations.filter((fault) => fault.impact === 'serious' || fault.impact === 'critical').map((fault) => `${path} ${fault.id}: ${fault.nodes[0]?.html.slice(0, 160)}`)).toEqual([]);
  }
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
  const me = (await (await second.request.get(at('/api/v1/me'))).json()) as { csrf_token: string };
  expect((await second.request.post(at('/sign-out'), { headers: { 'Offshoot-Csrf': me.csrf_token } })).status()).toBe(204);
  await second.reload();
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
