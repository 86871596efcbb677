import { look, seriousFaults } from './axe';
import { at, expect, half, offshoot, test } from './kit';

test('a token is issued with limits, shown once, used and revoked', async ({ page }) => {
  offshoot(['workspace', 'create', 'keyed']);
  offshoot(['put', 'keyed', 'src/a.txt'], 'a\n');
  await page.goto(at('/settings/tokens'));
  await expect(page.getByRole('link', { name: 'Tokens' })).toHaveAttribute('aria-current', 'page');
  await expect(page.getByRole('button', { name: 'Issue a token' }).first()).toBeVisible();
  await page.keyboard.press('n');
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Which').fill('keyed');
  await dialog.getByLabel('How long it is valid').selectOption('An hour');
  await dialog.getByLabel(/^What it is for/).fill('for the build');
  await dialog.getByLabel(/^Only these paths/).fill('src/**:read');
  await expect(dialog.getByText("offshoot token issue --workspace keyed --allow 'src/**:read' --ttl 1h --label 'for the build'")).toBeVisible();
  await dialog.getByRole('button', { name: 'Issue', exact: true }).click();
  const secret = await dialog.getByText(/^ofs_\w+$/).innerText();
  const ask = (path: string, method = 'GET') => page.request.fetch(`${process.env.OFFSHOOT_URL}/api/v1/workspaces/keyed/files/${path}`, { method, headers: { authorization: `Bearer ${secret}` }, ...(method === 'PUT' && { data: 'x' }) });
  expect([(await ask('src/a.txt')).status(), (await ask('src/a.txt', 'PUT')).status()]).toEqual([200, 403]);
  await dialog.getByRole('button', { name: 'I have copied it' }).click();
  const row = page.getByRole('listitem').filter({ hasText: 'for the build' });
  await expect(row).toContainText('workspace keyed');
  await expect(row).toContainText('src/**:read');
  await expect(page.getByText(secret)).toHaveCount(0);
  await row.getByRole('button', { name: 'Revoke: for the build' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await expect(page.getByText('The token is revoked')).toBeVisible();
  await expect(row).toHaveCount(0);
  expect((await ask('src/a.txt')).status()).toBe(401);
});

test('what the server refuses about a token is shown where it was asked', async ({ page }) => {
  await page.goto(at('/settings/tokens?do=issue&reach=project&name=nowhere'));
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByLabel('Which')).toHaveValue('nowhere');
  await dialog.getByRole('button', { name: 'Issue', exact: true }).click();
  await expect(dialog.getByRole('alert')).toContainText('project_not_found');
});

test('a quota is set and put back', async ({ page }) => {
  offshoot(['workspace', 'create', 'measured']);
  const quota = async () => (await page.request.get(at('/api/v1/workspaces/measured/quota'), { headers: half() })).json();
  await page.goto(at('/settings/quotas'));
  await page.getByRole('button', { name: 'Set: measured' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel(/^At most, such as/).fill('lots');
  await expect(dialog.getByText('A size such as 500 MB or 2 GB')).toBeVisible();
  await dialog.getByLabel(/^At most, such as/).fill('5 MB');
  await dialog.getByRole('button', { name: 'Set' }).click();
  const row = page.getByRole('listitem').filter({ hasText: 'measured' });
  await expect(row).toContainText('5.0 MB');
  expect(await quota()).toMatchObject({ bytes: 5_000_000 });
  await page.getByRole('button', { name: 'Undo' }).click();
  await expect(page.getByText('The quota of measured is as it was')).toBeVisible();
  expect(await quota()).toMatchObject({ bytes: null });
});

test('a block for MCP has a token that works', async ({ page }) => {
  const id = offshoot(['agent', 'spawn', '--parent', 'root', '--role', 'mcp']);
  await page.goto(at(`/settings/mcp?client=cursor&as=agent&name=${id}`));
  const block = page.locator('pre').filter({ hasText: 'mcpServers' });
  await expect(block).toContainText('Bearer TOKEN');
  await page.getByRole('button', { name: 'Issue a token and put it in' }).click();
  await expect(block).not.toContainText('Bearer TOKEN');
  const { headers } = JSON.parse(await block.innerText()).mcpServers.offshoot as { headers: Record<string, string> };
  const me = await page.request.get(`${process.env.OFFSHOOT_URL}/api/v1/me`, { headers });
  expect(await me.json()).toMatchObject({ operator: id });
  await page.getByLabel('Way').selectOption('stdio, on this machine');
  await expect(page.getByText(`offshoot mcp config cursor --agent ${id}`)).toBeVisible();
  await expect(page).toHaveURL(/way=stdio/);
});

test('server and preferences tell what is so, and the language changes at once', async ({ page }) => {
  await page.goto(at('/settings/server'));
  const { version, providers } = (await (await page.request.get(at('/api/v1/capabilities'), { headers: half() })).json()) as { version: string; providers: string[] };
  await expect(page.getByText(version, { exact: true })).toBeVisible();
  await expect(page.locator('code.best')).toHaveText(providers[0]!);
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await expect(page).toHaveURL(/\/settings\/tokens$/);
  await page.goto(at('/settings/preferences'));
  await page.getByLabel('Language').selectOption('简体中文');
  await expect(page.getByRole('heading', { level: 1, name: '设置' })).toBeVisible();
  await page.getByLabel('使用单键').uncheck();
  await page.keyboard.press('g');
  await page.keyboard.press('r');
  await expect(page).toHaveURL(/\/settings\/preferences$/);
});

for (const [theme, language, width] of [['light', 'en', 1280], ['dark', 'en', 1280], ['light', 'zh', 390]] as const) {
  test(`no serious fault of accessibility: settings ${theme} ${language} ${width}`, async ({ page }) => {
    // Six pages, each looked at as a whole.
    test.slow();
    await page.setViewportSize({ width, height: 844 });
    await look(page, theme, language);
    const ready: Record<string, string> = { 'tokens': 'main ul, main h2', 'tokens?do=issue': 'dialog[open]', 'quotas': 'main ul', 'mcp': 'main pre', 'server': 'main dl', 'preferences': 'main select' };
    for (const [tab, mark] of Object.entries(ready)) {
      await page.goto(at(`/settings/${tab}`));
      await expect(page.locator(mark).first()).toBeVisible();
      expect(await seriousFaults(page), tab).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth), tab).toBeLessThanOrEqual(width);
    }
  });
}
