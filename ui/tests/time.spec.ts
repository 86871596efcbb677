import { look, seriousFaults } from './axe';
import { at, directory, expect, half, offshoot, test } from './kit';

const numbered = (change: (line: string, i: number) => string = (line) => line) => Array.from({ length: 200 }, (_, i) => `${change(`line ${i + 1}`, i + 1)}\n`).join('');
const RED = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';

test('writes fold; a restore is previewed, done by one key, and undone', async ({ page }) => {
  offshoot(['workspace', 'create', 'past']);
  offshoot(['put', 'past', 'a.txt'], 'one\n');
  offshoot(['snapshot', 'past', '-m', 'first']);
  for (const text of ['two', 'three', 'four']) offshoot(['put', 'past', 'a.txt', '--operator', 'ada', '--message', 'm-7'], `${text}\n`);
  offshoot(['put', 'past', 'new.txt', '--operator', 'ada'], 'new\n');
  await page.goto(at('/w/past/time'));
  const row = page.getByRole('row').filter({ hasText: 'a.txt' }).first();
  await expect(row).toContainText('×3');
  await expect(row).toContainText('ada');
  await expect(row).toContainText('m-7');
  await expect(page.getByText('2 files differ')).toBeVisible();
  await expect(page.getByRole('region', { name: 'a.txt', exact: true }).getByText('+1', { exact: true })).toBeVisible();

  await page.keyboard.press('r');
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByRole('listitem').filter({ hasText: 'new.txt' })).toContainText('goes');
  await expect(dialog.getByRole('listitem').filter({ hasText: 'a.txt' })).toContainText('becomes as it was');
  await expect(dialog.getByRole('button', { name: 'Restore', exact: true })).toBeFocused();
  expect(offshoot(['cat', 'past', 'a.txt'])).toBe('four');
  await page.keyboard.press('Enter');
  await expect(page.getByText('Restored first: 2 paths changed')).toBeVisible();
  expect(offshoot(['cat', 'past', 'a.txt'])).toBe('one');
  await page.keyboard.press('u');
  await expect(page.getByText('Back to what it was before')).toBeVisible();
  expect([offshoot(['cat', 'past', 'a.txt']), offshoot(['cat', 'past', 'new.txt'])]).toEqual(['four', 'new']);
});

test('one file is restored and the rest stays', async ({ page }) => {
  offshoot(['workspace', 'create', 'onefile']);
  for (const name of ['a.txt', 'b.txt']) offshoot(['put', 'onefile', name], 'old\n');
  offshoot(['snapshot', 'onefile', '-m', 'before']);
  for (const name of ['a.txt', 'b.txt']) offshoot(['put', 'onefile', name], 'new\n');
  await page.goto(at('/w/onefile/time'));
  await page.getByRole('region', { name: 'b.txt', exact: true }).getByRole('button', { name: 'Restore file' }).click();
  await expect(page.getByRole('heading', { name: 'Restore b.txt as it was at “before”' })).toBeVisible();
  await page.getByRole('button', { name: 'Restore', exact: true }).click();
  await expect(page.getByText('b.txt is as it was at before')).toBeVisible();
  expect([offshoot(['cat', 'onefile', 'a.txt']), offshoot(['cat', 'onefile', 'b.txt'])]).toEqual(['new', 'old']);
});

test('a write shows at once, in the timeline and in the difference', async ({ page }) => {
  offshoot(['workspace', 'create', 'ticks']);
  offshoot(['put', 'ticks', 'a.txt'], 'one\n');
  offshoot(['snapshot', 'ticks', '-m', 'start']);
  await page.goto(at('/w/ticks/time'));
  await expect(page.getByText('Nothing differs between the two')).toBeVisible();
  offshoot(['put', 'ticks', 'live.txt', '--operator', 'bob'], 'hello there\n');
  await expect(page.getByRole('row').filter({ hasText: 'live.txt' })).toContainText('bob');
  await expect(page.getByRole('region', { name: 'live.txt', exact: true }).getByText('hello there')).toBeVisible();
  // What is read stays: another write does not read the lines of this file again.
  let asked = 0;
  page.on('request', (request) => { if (request.url().includes('path=live.txt')) asked += 1; });
  offshoot(['put', 'ticks', 'other.txt', '--operator', 'bob'], 'other\n');
  await expect(page.getByText('2 files differ')).toBeVisible();
  expect(asked).toBe(0);
  offshoot(['snapshot', 'ticks', '-m', 'later']);
  await expect(page.getByRole('row').filter({ hasText: 'later' })).toBeVisible();
});

test('without a snapshot it is compared with nothing', async ({ page }) => {
  offshoot(['workspace', 'create', 'fresh']);
  offshoot(['put', 'fresh', 'a.txt'], 'hello\n');
  await page.goto(at('/w/fresh/time'));
  await expect(page.getByText('the beginning')).toBeVisible();
  await page.keyboard.press('s');
  await expect(page.locator('.cm-merge-b')).toContainText('hello');
  await expect(page.locator('.cm-merge-a')).not.toContainText('hello');
  await expect(page.getByRole('row').filter({ hasText: 'Now' }).getByRole('link', { name: /\(A\)/ })).toHaveCount(0);
});

test('two points by keys, and the address has them', async ({ page }) => {
  offshoot(['workspace', 'create', 'points']);
  for (const n of [1, 2, 3]) {
    offshoot(['put', 'points', `f${n}.txt`], `${n}\n`);
    offshoot(['snapshot', 'points', '-m', `snap ${n}`]);
  }
  await page.goto(at('/w/points/time'));
  await expect(page.getByRole('row').filter({ hasText: 'snap 3' })).toBeVisible();
  // Now, snap 3, f3, snap 2, f2, snap 1.
  for (let i = 0; i < 6; i += 1) await page.keyboard.press('j');
  await page.keyboard.press('a');
  await expect(page).toHaveURL(/from=[0-9a-f]{12}/);
  await expect(page.getByText('2 files differ')).toBeVisible();
  await page.keyboard.press('k');
  await page.keyboard.press('k');
  await page.keyboard.press('b');
  await expect(page).toHaveURL(/from=[0-9a-f]{12}&to=[0-9a-f]{12}/);
  await expect(page.getByText('1 file differs')).toBeVisible();
  await expect(page.getByRole('region', { name: 'f2.txt', exact: true })).toBeVisible();
  await page.reload();
  await expect(page.getByRole('region', { name: 'f2.txt', exact: true })).toBeVisible();
});

test('the versions of a file, side by side, and one of them restored', async ({ page }) => {
  offshoot(['workspace', 'create', 'vers']);
  for (const word of ['alpha', 'beta', 'gamma']) offshoot(['put', 'vers', 'v.txt', '--operator', 'ada'], `top\n${word}\nend\n`);
  await page.goto(at('/w/vers/time?path=v.txt'));
  await expect(page.getByRole('row').filter({ hasText: 'versions 2 to 4' })).toBeVisible();
  await page.getByRole('button', { name: 'Show each version' }).click();
  await page.getByRole('link', { name: 'version 3', exact: true }).click();
  await expect(page).toHaveURL(/from=v2&to=v3/);
  await expect(page.getByRole('region', { name: 'Difference of v.txt' })).toContainText('beta');
  await page.keyboard.press('s');
  await expect(page.locator('.cm-merge-a')).toContainText('alpha');
  await expect(page.locator('.cm-merge-b')).toContainText('beta');
  await page.keyboard.press('r');
  await page.getByRole('button', { name: 'Restore', exact: true }).click();
  await expect(page.getByText('v.txt is as it was at version 2')).toBeVisible();
  expect(offshoot(['cat', 'vers', 'v.txt'])).toContain('alpha');
  await page.keyboard.press('u');
  await expect(page.getByText('Back to what it was before')).toBeVisible();
  expect(offshoot(['cat', 'vers', 'v.txt'])).toContain('gamma');
});

test('n and p go from change to change', async ({ page }) => {
  offshoot(['workspace', 'create', 'steps']);
  offshoot(['put', 'steps', 'long.txt'], numbered());
  offshoot(['snapshot', 'steps', '-m', 'before']);
  offshoot(['put', 'steps', 'long.txt'], numbered((line, i) => (i % 20 === 0 ? `${line} changed` : line)));
  await page.goto(at('/w/steps/time'));
  const pane = page.getByRole('region', { name: 'Differences' });
  await expect(pane.getByText('line 20 changed')).toBeVisible();
  const top = () => pane.evaluate((box) => box.scrollTop);
  await page.keyboard.press('n');
  await page.keyboard.press('n');
  await expect.poll(top).toBeGreaterThan(0);
  const after = await top();
  await page.keyboard.press('n');
  await expect.poll(top).toBeGreaterThan(after);
  await page.keyboard.press('p');
  await expect.poll(top).toBe(after);
  await page.keyboard.press('s');
  await expect(page.locator('.cm-merge-b')).toContainText('changed');
  await pane.evaluate((box) => box.scrollTo(0, 0));
  for (let i = 0; i < 3; i += 1) await page.keyboard.press('n');
  await expect.poll(top).toBeGreaterThan(0);
  await expect(pane.locator('.cm-merge-b').getByText('line 60 changed')).toBeInViewport();
});

test('images are shown beside each other', async ({ page }) => {
  offshoot(['project', 'create', 'pics', '--from', directory({ 'a.txt': 'a\n' })]);
  const path = offshoot(['fork', 'pics', '--agent', 'pia']);
  expect(path).toContain('pia');
  const { request } = page;
  const put = (data: Buffer) => request.put(at('/api/v1/workspaces/pia/files/dot.png'), { headers: half(), data });
  await put(Buffer.from(RED, 'base64'));
  offshoot(['snapshot', 'pia', '-m', 'red']);
  await put(Buffer.concat([Buffer.from(RED, 'base64'), Buffer.from([0])]));
  await page.goto(at('/w/pia/time'));
  const images = page.getByRole('region', { name: 'dot.png', exact: true }).getByRole('img', { name: 'dot.png' });
  await expect(images).toHaveCount(2);
});

test('a fork begins at a moment, and undo takes it away', async ({ page }) => {
  offshoot(['project', 'create', 'tree', '--from', directory({ 'a.txt': 'a\n' })]);
  offshoot(['fork', 'tree', '--agent', 'tess']);
  offshoot(['put', 'tess', 'work.txt'], 'half done\n');
  offshoot(['snapshot', 'tess', '-m', 'half']);
  offshoot(['put', 'tess', 'work.txt'], 'done\n');
  await page.goto(at('/w/tess/time'));
  await expect(page.getByText('1 file differs')).toBeVisible();
  await page.keyboard.press('f');
  await expect(page.getByText(/begins with half/)).toBeVisible();
  await expect(page).toHaveURL(/\/w\/tree-[^/]+\/f\/$/);
  const made = /\/w\/([^/]+)\//.exec(page.url())![1]!;
  expect(offshoot(['cat', made, 'work.txt'])).toBe('half done');
  await page.getByRole('button', { name: 'Undo' }).click();
  await expect(page).toHaveURL(/\/w\/tess\/time/);
  await expect.poll(() => offshoot(['forks', 'tree'])).not.toContain(made);
});

test('a completed workspace can still be looked back at', async ({ page }) => {
  offshoot(['project', 'create', 'over', '--from', directory({ 'a.txt': 'a\n' })]);
  offshoot(['fork', 'over', '--agent', 'otto']);
  offshoot(['put', 'otto', 'a.txt'], 'by otto\n');
  offshoot(['complete', 'otto']);
  await page.goto(at('/w/otto/f/'));
  await page.getByRole('link', { name: 'Look at its history' }).click();
  await expect(page.getByText('Its history is kept')).toBeVisible();
  await expect(page.getByRole('region', { name: 'Difference of a.txt' })).toContainText('by otto');
  await expect(page.getByRole('button', { name: 'Restore A' })).toHaveCount(0);
});

test('blame says who wrote which line', async ({ page }) => {
  offshoot(['workspace', 'create', 'lines']);
  offshoot(['put', 'lines', 'b.txt', '--operator', 'ada', '--message', 'm-1'], 'first\nsecond\n');
  offshoot(['put', 'lines', 'b.txt', '--operator', 'bob', '--message', 'm-2'], 'first\nchanged\n');
  await page.goto(at('/w/lines/f/b.txt'));
  await expect(page.locator('.cm-content')).toBeVisible();
  await page.keyboard.press('B');
  await expect(page).toHaveURL(/view=blame/);
  const table = page.getByRole('table', { name: 'Who wrote which line of b.txt' });
  await expect(table.getByRole('row').nth(0)).toContainText('ada');
  await expect(table.getByRole('row').nth(1)).toContainText('bob');
  await expect(table.getByRole('row').nth(1)).toContainText('m-2');
  await page.getByRole('link', { name: 'History', exact: true }).click();
  await expect(page).toHaveURL(/\/w\/lines\/time\?path=b.txt/);
});

test('hostile names, messages, labels and lines run nothing', async ({ page }) => {
  const evil = '<img src=x onerror=alert(1)>';
  offshoot(['workspace', 'create', 'hostile']);
  offshoot(['put', 'hostile', `${evil}.html`, '--message', 'm"><script>alert(2)</script>'], '<script>alert(3)</script>\n');
  offshoot(['snapshot', 'hostile', '-m', evil]);
  offshoot(['put', 'hostile', `${evil}.html`, '--message', 'm"><script>alert(2)</script>'], `<svg onload=alert(4)>\n${evil}\n`);
  await page.goto(at('/w/hostile/time'));
  await expect(page.getByRole('row').filter({ hasText: evil }).first()).toBeVisible();
  await expect(page.getByText('<svg onload=alert(4)>')).toBeVisible();
  await page.keyboard.press('s');
  await expect(page.locator('.cm-merge-b')).toContainText('<svg onload=alert(4)>');
  await page.goto(at(`/w/hostile/f/${encodeURIComponent(`${evil}.html`)}?view=blame`));
  await expect(page.getByRole('table').getByText('<svg onload=alert(4)>')).toBeVisible();
});

for (const theme of ['light', 'dark'] as const) {
  test(`no serious fault of accessibility in time, ${theme}`, async ({ page }) => {
    test.setTimeout(60_000);
    const name = `axe-time-${theme}`;
    offshoot(['workspace', 'create', name]);
    offshoot(['put', name, 'a.md', '--operator', 'ada', '--message', 'm-1'], '# One\n');
    offshoot(['snapshot', name, '-m', 'first']);
    for (const text of ['# Two\n', '# Three\n']) offshoot(['put', name, 'a.md', '--operator', 'ada', '--message', 'm-2'], text);
    await look(page, theme);
    await page.goto(at(`/w/${name}/time`));
    await expect(page.getByText('# Three')).toBeVisible();
    expect(await seriousFaults(page)).toEqual([]);
    await page.keyboard.press('s');
    await expect(page.locator('.cm-merge-b')).toContainText('# Three');
    expect(await seriousFaults(page)).toEqual([]);
    await page.keyboard.press('r');
    await expect(page.getByRole('dialog').getByText('becomes as it was')).toBeVisible();
    expect(await seriousFaults(page)).toEqual([]);
    await page.goto(at(`/w/${name}/f/a.md?view=blame`));
    await expect(page.getByRole('table').getByText('# Three')).toBeVisible();
    expect(await seriousFaults(page)).toEqual([]);
    if (theme === 'light') return;
    await look(page, 'light', 'zh');
    await page.setViewportSize({ width: 390, height: 844 });
    await page.goto(at(`/w/${name}/time?path=a.md`));
    await expect(page.getByRole('row').first()).toBeVisible();
    expect(await seriousFaults(page)).toEqual([]);
    await page.getByRole('link', { name: '比较', exact: true }).click();
    await expect(page.getByText('# Three')).toBeVisible();
    expect(await seriousFaults(page)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
  });
}
