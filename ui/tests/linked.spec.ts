// The repository that a project is linked to: ahead and behind, pull and push with a preview.
import { look, seriousFaults } from './axe';
import { at, expect, offshoot, test } from './kit';
import { Repository } from './repository';

/** A linked project whose repository has a commit that it lacks, and that has one which the repository lacks. */
function linked(name: string): Repository {
  const repository = new Repository(name, { 'README.md': 'Welcome.\n', 'a.txt': 'a\n' }, 'Begin');
  offshoot(['project', 'create', name, '--from', repository.dir, '--link']);
  offshoot(['fork', name, '--agent', `${name}-agent`]);
  offshoot(['put', `${name}-agent`, 'agent.txt'], 'work\n');
  offshoot(['complete', `${name}-agent`]);
  return repository;
}

test('a linked repository is pulled and pushed after a preview', async ({ page }) => {
  const repository = linked('linked');
  await page.goto(at('/p/linked'));
  const card = page.getByRole('region', { name: 'Linked repository' });
  await expect(card).toContainText(repository.dir);
  await expect(card).toContainText('↑ 1 commit ahead');
  // No event tells of it: it shows when somebody comes back to the page.
  repository.commit({ 'b.txt': 'b\n' }, 'More');
  await page.evaluate(() => window.dispatchEvent(new Event('focus')));
  await expect(card).toContainText('↓ 1 commit to pull');

  await card.getByRole('button', { name: 'Pull' }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('merged with what agents did');
  await expect(dialog).toContainText('b.txt');
  await expect(dialog.getByText('offshoot pull linked')).toBeVisible();
  await expect(page).toHaveURL(/do=pull/);
  await expect(dialog.getByRole('button', { name: 'Pull' })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.getByText('Pulled 1 commit of main')).toBeVisible();
  await expect(dialog).toHaveCount(0);
  await expect(card).not.toContainText('to pull');
  expect(offshoot(['project', 'cat', 'linked', 'b.txt'])).toBe('b');

  await page.keyboard.press('Shift+P');
  await expect(dialog).toContainText('offshoot/main is new and gets');
  const branch = dialog.getByLabel('Branch of the repository');
  await branch.fill('main');
  await branch.press('Tab');
  await expect(dialog.getByRole('alert')).toContainText('checked out');
  await expect(dialog.getByRole('button', { name: 'Push' })).toBeDisabled();
  await branch.fill('offshoot/main');
  await branch.press('Tab');
  await expect(dialog).toContainText('offshoot/main is new and gets');
  await dialog.getByRole('button', { name: 'Push' }).click();
  await expect(page.getByText(/Pushed \d commits to offshoot\/main/)).toBeVisible();
  await expect(card).toContainText('all of it in offshoot/main');
  expect(repository.git('show', 'offshoot/main:agent.txt')).toBe('work');
  expect(repository.git('status', '--porcelain')).toBe('');
  await page.keyboard.press('Shift+P');
  await expect(dialog).toContainText('offshoot/main has everything already');
});

test('what a pull cannot decide waits in the reviews', async ({ page }) => {
  const repository = linked('meets');
  repository.commit({ 'agent.txt': 'mine\n', 'c.txt': 'c\n' }, 'The same file');
  await page.goto(at('/p/meets?do=pull'));
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('1 conflict will wait for review');
  await dialog.getByRole('button', { name: 'Pull' }).click();
  await expect(page).toHaveURL(/\/reviews\?project=meets$/);
  await expect(page.getByRole('link', { name: /agent\.txt/ })).toBeVisible();
  await page.goto(at('/p/meets'));
  const card = page.getByRole('region', { name: 'Linked repository' });
  await card.getByRole('link', { name: 'Conflicts of a pull wait' }).click();
  await page.getByRole('link', { name: /agent\.txt/ }).click();
  await expect(page.getByText('0 of 1 decided')).toBeVisible();
  await page.keyboard.press('2');
  await expect(page.getByText('1 of 1 decided')).toBeVisible();
  await page.keyboard.press('Enter');
  await expect.poll(() => offshoot(['project', 'cat', 'meets', 'agent.txt'])).toBe('mine');
});

test('a project without a link, and whoever sees a part, see none of it', async ({ page, browser }) => {
  const repository = linked('hidden');
  offshoot(['project', 'create', 'unlinked', '--from', repository.dir]);
  await page.goto(at('/p/unlinked'));
  await expect(page.getByRole('heading', { name: 'Forks' })).toBeVisible();
  await expect(page.getByText('Linked repository')).toHaveCount(0);
  const context = await browser.newContext({ storageState: { cookies: [], origins: [] } });
  const other = await context.newPage();
  await other.goto(at('/p/hidden'));
  await other.getByLabel('Sign-in link or token').fill(offshoot(['token', 'issue', '--project', 'hidden']));
  await other.getByRole('button', { name: 'Sign in' }).click();
  await expect(other.getByRole('heading', { name: 'Forks' })).toBeVisible();
  await expect(other.getByText(repository.dir)).toHaveCount(0);
  await context.close();
});

for (const [theme, language, width] of [['light', 'en', 1280], ['dark', 'en', 1280], ['light', 'zh', 390]] as const) {
  test(`no serious fault of accessibility: linked repository ${theme} ${language} ${width}`, async ({ page }) => {
    const name = `axe-link-${theme}-${language}`;
    linked(name).commit({ 'agent.txt': 'mine\n' }, 'More');
    await page.setViewportSize({ width, height: 844 });
    await look(page, theme, language);
    for (const [query, mark] of [['', '#link'], ['?do=pull', 'dialog li'], ['?do=push', 'dialog form p.mono']] as const) {
      await page.goto(at(`/p/${name}${query}`));
      await expect(page.locator(mark).first()).toBeVisible();
      expect(await seriousFaults(page), query).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    }
  });
}
