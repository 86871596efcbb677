import { look, seriousFaults } from './axe';
import { at, directory, expect, offshoot, test, tolerant } from './kit';

interface Merged { merge_id: string; snapshot: string; workspace: string }
const mergesOf = (project: string) => (JSON.parse(offshoot(['--json', 'merge', 'log', project])) as { merges: Merged[] }).merges;

/** A project with a merge, a merge with a conflict and one that a policy decided. */
function busy(name: string, files: Record<string, string> = {}): void {
  offshoot(['project', 'create', name, '--from', directory({ 'README.md': 'Welcome.\n', 'app.json': '{\n  "port": 1,\n  "debug": false\n}\n', 'deps.lock': 'lock: 1\n', ...files })]);
  offshoot(['project', 'policy', name, '--set', '*.lock=last-writer-wins']);
  const agents = ['ada', 'bob', 'cyd'].map((agent) => `${agent}-${name}`);
  for (const agent of agents) offshoot(['fork', name, '--agent', agent]);
  const [ada, bob, cyd] = agents as [string, string, string];
  offshoot(['put', ada, 'app.json'], '{\n  "port": 2,\n  "debug": false\n}\n');
  offshoot(['put', ada, 'README.md'], 'Hello.\n');
  offshoot(['put', ada, 'deps.lock'], 'lock: 2\n');
  offshoot(['complete', ada]);
  offshoot(['put', bob, 'app.json'], '{\n  "port": 1,\n  "debug": true\n}\n');
  offshoot(['put', bob, 'README.md'], 'Hi there.\n');
  tolerant(['complete', bob]);
  offshoot(['put', cyd, 'deps.lock'], 'lock: 3\n');
  offshoot(['complete', cyd]);
}

test('the graph shows snapshots and forks, and a snapshot what it brought', async ({ page }) => {
  busy('graph');
  offshoot(['fork', 'graph', '--agent', 'gus']);
  offshoot(['put', 'gus', 'new.txt'], 'new\n');
  await page.goto(at('/p/graph'));
  const trunk = page.getByRole('region', { name: 'Snapshots' });
  await expect(trunk.getByRole('listitem')).toHaveCount(4);
  await expect(trunk.getByRole('link', { name: 'gus', exact: true })).toBeVisible();
  const fork = page.getByRole('region', { name: 'Forks' }).getByRole('listitem').filter({ hasText: 'gus' });
  await expect(fork).toContainText('1 changed');
  await expect(fork).toContainText('fits');
  await expect(page.getByRole('region', { name: 'Forks' }).getByRole('listitem').filter({ hasText: 'bob-graph' })).toContainText('1 in review');

  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/p\/graph\?at=[0-9a-f]{12}$/);
  await expect(page.getByRole('heading', { name: 'Merge bob-graph' })).toBeVisible();
  await expect(page.getByRole('region', { name: 'Difference of app.json' })).toContainText('"debug": true');
  await page.keyboard.press('Escape');
  await expect(fork).toBeVisible();

  // It goes on by itself.
  offshoot(['complete', 'gus']);
  await expect(trunk.getByRole('listitem').first()).toContainText('Merge gus');
  await expect(trunk.getByRole('listitem')).toHaveCount(5);
});

test('forks are made, many at once, and undo takes them away', async ({ page }) => {
  offshoot(['project', 'create', 'many', '--from', directory({ 'a.txt': 'a\n' })]);
  await page.goto(at('/p/many'));
  await expect(page.getByText('No agent works on it yet')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Fork' }).first()).toBeEnabled();
  await page.keyboard.press('f');
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByLabel('Agent')).toBeFocused();
  await page.keyboard.type('max');
  await dialog.getByLabel('How many').fill('3');
  await expect(dialog.getByText('offshoot fork many --agent max --count 3')).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(page.getByText('3 forks of many are there')).toBeVisible();
  await expect(page.getByRole('region', { name: 'Forks' }).getByRole('listitem')).toHaveCount(3);
  expect(offshoot(['forks', 'many'])).toContain('max~3');
  await page.getByRole('button', { name: 'Undo' }).click();
  await expect(page.getByText('The forks are gone again')).toBeVisible();
  expect(offshoot(['forks', 'many'])).not.toContain('max');
});

test('a fork is completed from the project', async ({ page }) => {
  offshoot(['project', 'create', 'lands', '--from', directory({ 'a.txt': 'a\n' })]);
  offshoot(['fork', 'lands', '--agent', 'lea']);
  offshoot(['put', 'lea', 'b.txt'], 'b\n');
  await page.goto(at('/p/lands'));
  await page.getByRole('listitem').filter({ hasText: 'lea' }).getByRole('button', { name: 'Complete' }).click();
  await expect(page.getByRole('dialog').getByText('1 file merges')).toBeVisible();
  await expect(page.getByRole('dialog').getByRole('button', { name: 'Complete' })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.getByText('lea has landed: 1 file')).toBeVisible();
  expect(offshoot(['project', 'cat', 'lands', 'b.txt'])).toBe('b');
});

test('files at any snapshot, their versions and who wrote them', async ({ page }) => {
  busy('files');
  await page.goto(at('/p/files/files/'));
  await page.getByRole('gridcell', { name: 'app.json' }).click();
  await page.getByRole('button', { name: 'Versions' }).click();
  await expect(page.getByRole('listitem').filter({ hasText: 'Import' })).toBeVisible();
  await page.getByRole('link', { name: 'Import' }).click();
  await expect(page).toHaveURL(/app\.json\?at=/);
  await page.getByRole('button', { name: 'Source' }).click();
  await expect(page.locator('.cm-content')).toContainText('"port": 1');
  await page.getByRole('link', { name: 'Show the newest' }).click();
  await page.getByRole('button', { name: 'Blame' }).click();
  const table = page.getByRole('table');
  await expect(table.getByRole('row').filter({ hasText: '"port": 2' })).toContainText('ada-files');
  await expect(table.getByRole('row').filter({ hasText: '"debug": true' })).toContainText('bob-files');
});

test('a receipt tells how each path was decided, and undo is previewed', async ({ page }) => {
  busy('receipt');
  await page.goto(at('/p/receipt/merges'));
  const rows = page.getByRole('main').getByRole('listitem');
  await expect(rows).toHaveCount(3);
  await expect(rows.filter({ hasText: 'bob-receipt' })).toContainText('landed in part');
  await rows.filter({ hasText: 'bob-receipt' }).getByRole('link').click();
  await expect(page.getByText('both sides changed it; put together by json')).toBeVisible();
  await expect(page.getByRole('listitem').filter({ hasText: 'README.md' })).toContainText('waits for a decision');
  await expect(page.getByRole('region', { name: 'Difference of app.json' })).toContainText('"debug": true');

  await page.keyboard.press('U');
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByRole('listitem')).toContainText('app.json');
  await expect(dialog.getByRole('button', { name: 'Undo merge' })).toBeFocused();
  expect(offshoot(['project', 'cat', 'receipt', 'app.json'])).toContain('true');
  await page.keyboard.press('Enter');
  await expect(page.getByText('The merge of bob-receipt is undone')).toBeVisible();
  expect(offshoot(['project', 'cat', 'receipt', 'app.json'])).toContain('false');
  await expect(page.getByText('undone', { exact: true })).toBeVisible();
  await expect(page.getByRole('button', { name: 'Undo merge' })).toHaveCount(0);
});

test('what lost by a policy comes back, and an undo that cannot be says why', async ({ page }) => {
  busy('lost');
  const [last, , first] = mergesOf('lost');
  await page.goto(at(`/p/lost/merges/${last!.merge_id}`));
  await expect(page.getByText('decided by last-writer-wins, the workspace won')).toBeVisible();
  await page.getByRole('button', { name: 'Bring back what lost' }).click();
  await expect(page.getByText('deps.lock is again what lost')).toBeVisible();
  expect(offshoot(['project', 'cat', 'lost', 'deps.lock'])).toBe('lock: 2');
  offshoot(['fork', 'lost', '--agent', 'lou']);
  offshoot(['put', 'lou', 'README.md'], 'Hello and more.\n');
  offshoot(['complete', 'lou']);
  await page.goto(at(`/p/lost/merges/${first!.merge_id}?do=undo`));
  await page.getByRole('dialog').getByRole('button', { name: 'Undo merge' }).click();
  await expect(page.getByRole('dialog').getByRole('alert')).toContainText('README.md');
  expect(offshoot(['project', 'cat', 'lost', 'README.md'])).toBe('Hello and more.');
});

test('the policy is edited, and each change undone', async ({ page }) => {
  offshoot(['project', 'create', 'rules', '--from', directory({ 'a.txt': 'a\n' })]);
  offshoot(['project', 'policy', 'rules', '--set', '*.lock=last-writer-wins', '--set', 'docs/**=ours']);
  const policy = () => offshoot(['project', 'policy', 'rules']);
  await page.goto(at('/p/rules/policy'));
  await page.getByRole('button', { name: 'Move docs/** up' }).click();
  await expect.poll(policy).toMatch(/docs\/\*\* +ours\n\*\.lock/);
  await page.getByLabel('Policy of *.lock').selectOption('union');
  await expect.poll(policy).toMatch(/\*\.lock +union/);
  await page.keyboard.press('u');
  await expect.poll(policy).toMatch(/\*\.lock +last-writer-wins/);
  const rules = page.getByRole('region', { name: 'Who wins a conflict' });
  await rules.getByLabel('Pattern', { exact: true }).fill('*.lock');
  await rules.getByRole('button', { name: 'Add' }).click();
  await expect(page.getByText('This pattern is there already')).toBeVisible();
  await rules.getByLabel('Pattern', { exact: true }).fill('CHANGELOG.md');
  await page.keyboard.press('Enter');
  await expect.poll(policy).toMatch(/CHANGELOG\.md +last-writer-wins/);
  const guarded = page.getByRole('region', { name: 'Protected paths' });
  await guarded.getByLabel('Pattern').fill('.github/**');
  await guarded.getByRole('button', { name: 'Protect' }).click();
  await expect.poll(policy).toMatch(/\.github\/\*\* +protect/);
  await page.getByRole('radio', { name: /atomic/ }).check();
  await expect.poll(policy).toMatch(/landing +atomic/);
  await guarded.getByRole('button', { name: 'Remove .github/**' }).click();
  await expect.poll(policy).not.toMatch(/protect/);
  // What somebody else sets shows without a reload.
  offshoot(['project', 'policy', 'rules', '--protect', 'CLAUDE.md']);
  await expect(guarded.getByText('CLAUDE.md')).toBeVisible();
});

test('a project is made from a directory, and an error says what to do', async ({ page }) => {
  await page.goto(at('/'));
  await expect(page.getByRole('link', { name: 'Projects' })).toBeVisible();
  await page.keyboard.press('g');
  await page.keyboard.press('p');
  await expect(page).toHaveURL(/\/p$/);
  await expect(page.getByRole('button', { name: 'New project' })).toBeVisible();
  await page.keyboard.press('n');
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('made');
  await dialog.getByLabel('Begin with').fill('not/absolute');
  await page.keyboard.press('Enter');
  await expect(dialog.getByRole('alert')).toContainText('invalid_request');
  await dialog.getByLabel('Begin with').fill(directory({ 'a.txt': 'a\n', 'b.txt': 'b\n' }));
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/p\/made$/);
  await expect(page.getByRole('region', { name: 'Snapshots' }).getByRole('listitem')).toHaveCount(1);
  expect(offshoot(['project', 'files', 'made'])).toContain('b.txt');
});

test('a project that is not there says so', async ({ page }) => {
  await page.goto(at('/p/nowhere'));
  await expect(page.getByText('There is no project nowhere')).toBeVisible();
});

test('hostile names in a project run nothing', async ({ page }) => {
  const evil = '<img src=x onerror=alert(1)>';
  offshoot(['project', 'create', 'evil', '--from', directory({ [`${evil}.md`]: `# hi\n\n${evil}\n` })]);
  offshoot(['fork', 'evil', '--agent', 'eva']);
  offshoot(['put', 'eva', `${evil}.md`], `<script>alert(2)</script>\n`);
  offshoot(['complete', 'eva', '-m', evil, '--message', '"><script>alert(3)</script>']);
  await page.goto(at('/p/evil'));
  await page.getByRole('link', { name: evil }).first().click();
  await expect(page.getByText('<script>alert(2)</script>')).toBeVisible();
  await page.goto(at(`/p/evil/merges/${mergesOf('evil')[0]!.merge_id}`));
  await expect(page.getByText(`${evil}.md`).first()).toBeVisible();
  await page.goto(at(`/p/evil/files/${encodeURIComponent(`${evil}.md`)}?view=versions`));
  await expect(page.getByRole('listitem').filter({ hasText: evil }).first()).toBeVisible();
});

/** Every page of a project, with what it shows when it is there: in English, in Chinese. */
function pagesOf(name: string): [string, string, string][] {
  const { merge_id: merge, snapshot } = mergesOf(name)[0]!;
  return [
    ['/p', name, name],
    [`/p/${name}`, 'Merge cyd-', 'Merge cyd-'],
    [`/p/${name}?at=${snapshot.slice(0, 12)}`, 'lock: 3', 'lock: 3'],
    [`/p/${name}?do=fork`, 'How many', '数量'],
    [`/p/${name}/files/app.json`, 'debug', 'debug'],
    [`/p/${name}/merges`, 'landed in part', '部分合入'],
    [`/p/${name}/merges/${merge}`, 'lock: 3', 'lock: 3'],
    [`/p/${name}/merges/${merge}?do=undo`, 'loses what it brought', '去掉它带来的改动'],
    [`/p/${name}/policy`, 'Protected paths', '受保护的路径'],
  ];
}

for (const theme of ['light', 'dark'] as const) {
  test(`no serious fault of accessibility in a project, ${theme}`, async ({ page }) => {
    test.setTimeout(120_000);
    const name = `axe-${theme}`;
    busy(name);
    offshoot(['fork', name, '--count', '14']);
    await look(page, theme);
    for (const [path, text] of pagesOf(name)) {
      await page.goto(at(path));
      await expect(page.getByText(text).first()).toBeVisible();
      expect([path, ...(await seriousFaults(page))]).toEqual([path]);
    }
  });
}

test('no serious fault of accessibility in a project on a phone, in Chinese', async ({ page }) => {
  test.setTimeout(120_000);
  busy('axe-phone');
  await look(page, 'light', 'zh');
  await page.setViewportSize({ width: 390, height: 844 });
  for (const [path, , text] of pagesOf('axe-phone')) {
    await page.goto(at(path));
    await expect(page.getByText(text).first()).toBeVisible();
    expect([path, ...(await seriousFaults(page))]).toEqual([path]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
  }
});
