import { seriousFaults, look } from './axe';
import { at, directory, expect, offshoot, test } from './kit';

test('a new agent shows its token once and stands in the tree', async ({ page }) => {
  offshoot(['project', 'create', 'crew', '--from', directory({ 'a.txt': 'a\n' })]);
  await page.goto(at('/agents'));
  await expect(page.getByRole('heading', { level: 1, name: 'Agents' })).toBeVisible();
  await page.keyboard.press('n');
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await expect(dialog.getByText('Say what it is there for')).toBeVisible();
  await dialog.getByLabel('What it is there for').fill('tester');
  await dialog.getByLabel('Fork of').selectOption('crew');
  await dialog.getByLabel(/^Name/).fill('tamsin');
  await dialog.getByLabel(/^Priority/).fill('7');
  await dialog.getByRole('button', { name: 'Create' }).click();
  const token = await dialog.getByText(/^ofs_\w+$/).innerText();
  const me = await page.request.get(`${process.env.OFFSHOOT_URL}/api/v1/me`, { headers: { authorization: `Bearer ${token}` } });
  expect(await me.json()).toMatchObject({ operator: 'tamsin', workspace: 'tamsin' });
  await dialog.getByRole('button', { name: 'I have copied it' }).click();
  const row = page.getByRole('listitem').filter({ has: page.locator('[data-agent=tamsin]') });
  await expect(row).toContainText('of crew');
  await expect(row).toContainText('7');
  await page.reload();
  await expect(row).toBeVisible();
  await expect(page.getByText(token)).toHaveCount(0);
});

test('what an agent does shows as it happens', async ({ page }) => {
  offshoot(['project', 'create', 'busy', '--from', directory({ 'a.txt': 'a\n' })]);
  offshoot(['fork', 'busy', '--agent', 'busy-bee']);
  await page.goto(at('/agents'));
  const row = page.getByRole('listitem').filter({ has: page.locator('[data-agent=busy-bee]') });
  await expect(row).toContainText('named by a fork');
  offshoot(['put', 'busy-bee', 'made.txt', '--message', 'm-77'], 'x\n');
  await expect(row).toContainText('wrote made.txt');
  await expect(row).toContainText('m-77');
  await expect(row).toContainText('working');
  offshoot(['agent', 'spawn', '--parent', 'root', '--role', 'helper']);
  await expect(page.getByRole('link', { name: /helper-/ }).first()).toBeVisible();
});

test('ending says what happens first, and the token is void then', async ({ page }) => {
  const id = offshoot(['agent', 'spawn', '--parent', 'root', '--role', 'ender']);
  const token = offshoot(['token', 'issue', '--agent', id]);
  await page.goto(at('/agents'));
  await page.getByRole('button', { name: `Actions for ${id}` }).click();
  await page.getByRole('menuitem', { name: 'End it' }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('This cannot be undone');
  await expect(dialog).toContainText(`Its workspace ${id} stays`);
  await dialog.getByRole('button', { name: 'End it' }).click();
  await expect(page.getByText(`${id} has ended`)).toBeVisible();
  await expect(page.locator(`[data-agent="${id}"]`)).toHaveCount(0);
  const me = await page.request.get(`${process.env.OFFSHOOT_URL}/api/v1/me`, { headers: { authorization: `Bearer ${token}` } });
  expect(me.status()).toBe(401);
});

for (const [theme, language, width] of [['light', 'en', 1280], ['dark', 'en', 1280], ['light', 'zh', 390]] as const) {
  test(`no serious fault of accessibility: agents ${theme} ${language} ${width}`, async ({ page }) => {
    test.slow();
    await page.setViewportSize({ width, height: 844 });
    await look(page, theme, language);
    await page.goto(at('/agents'));
    await expect(page.getByRole('listitem').filter({ hasText: 'tamsin' })).toBeVisible();
    expect(await seriousFaults(page)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    await page.goto(at('/agents?do=add'));
    await expect(page.getByRole('dialog')).toBeVisible();
    expect(await seriousFaults(page)).toEqual([]);
  });
}
