import { look, seriousFaults } from './axe';
import { at, directory, expect, offshoot, test, tolerant, watch } from './kit';

/** A project in which `ours` landed and `theirs` waits: both changed the same files. */
function conflict(project: string, base: Record<string, string>, ours: Record<string, string | null>, theirs: Record<string, string | null>, settings: string[] = []): void {
  offshoot(['project', 'create', project, '--from', directory(base)]);
  if (settings.length) offshoot(['project', 'policy', project, ...settings]);
  for (const side of ['ours', 'theirs']) offshoot(['fork', project, '--agent', `${project}-${side}`]);
  for (const [side, files] of [['ours', ours], ['theirs', theirs]] as const) {
    const fork = `${project}-${side}`;
    for (const [path, text] of Object.entries(files)) {
      if (text === null) offshoot(['rm', fork, path]);
      else offshoot(['put', fork, path, '--message', `m-${side}`], text);
    }
    tolerant(['complete', fork]);
  }
}
const projectText = (project: string, path: string) => offshoot(['project', 'cat', project, path]);
const reviewOf = (project: string, path: string): string => {
  const { reviews } = JSON.parse(offshoot(['--json', 'review', 'list'])) as { reviews: { id: string; project: string; path: string }[] };
  return reviews.find((one) => one.project === project && one.path === path)!.id;
};
const lines = (first: string, third: string) => `${first}\ntwo\n\nthree\n\n${third}\n`;

test('ten reviews are decided by keys in less than 30 s', async ({ page }) => {
  const files = (word: string) => Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`f${i}.txt`, `${word} ${i}\nend\n`]));
  conflict('ten', files('base'), files('ours'), files('theirs'));
  await page.goto(at('/reviews?project=ten'));
  await expect(page.getByRole('link', { name: /f9\.txt/ })).toBeVisible();
  const began = Date.now();
  await page.keyboard.press('Enter');
  for (let i = 0; i < 10; i += 1) {
    await expect(page.getByRole('heading', { level: 1, name: `f${i}.txt` })).toBeVisible();
    await page.keyboard.press(i % 2 ? '1' : '2');
    await expect(page.getByText('1 of 1 decided')).toBeVisible();
    await page.keyboard.press('Enter');
  }
  await expect(page.getByRole('heading', { name: 'Nothing to decide here' })).toBeVisible();
  expect(Date.now() - began).toBeLessThan(30_000);
  // What was sent is what landed; decisions follow each other.
  await expect.poll(() => projectText('ten', 'f9.txt') + projectText('ten', 'f8.txt')).toBe('ours 9\nendtheirs 8\nend');
  await expect.poll(() => Array.from({ length: 10 }, (_, i) => projectText('ten', `f${i}.txt`).split(' ')[0]).join()).toBe(Array.from({ length: 10 }, (_, i) => (i % 2 ? 'ours' : 'theirs')).join());
});

test('each part has its own choice, and the result shows it before it lands', async ({ page }) => {
  conflict('parts', { 'a.md': lines('one', 'six') }, { 'a.md': lines('one OURS', 'six OURS') }, { 'a.md': lines('one THEIRS', 'six THEIRS') });
  await page.goto(at(`/reviews/${reviewOf('parts', 'a.md')}`));
  await expect(page.getByRole('heading', { name: 'line 6' })).toBeVisible();
  await expect(page.getByRole('group', { name: 'Base, line 1' })).toContainText('one');
  const resolve = page.getByRole('button', { name: 'Resolve' });
  await expect(resolve).toBeDisabled();
  await page.keyboard.press('2');
  await expect(page.getByText('1 of 2 decided')).toBeVisible();
  // Enter decides nothing while a part is open.
  await page.keyboard.press('Enter');
  await expect(page.getByText('Choose first')).toBeVisible();
  await page.keyboard.press('4');
  const result = page.getByRole('region', { name: 'Result' }).locator('.cm-content');
  await expect(result).toContainText('one THEIRS');
  await expect(result).toContainText('six OURSsix THEIRS');
  await resolve.click();
  await expect(page.getByText('a.md is decided')).toBeVisible();
  expect(projectText('parts', 'a.md')).toBe('one THEIRS\ntwo\n\nthree\n\nsix OURS\nsix THEIRS');
  // And back, as a new snapshot.
  await page.getByRole('button', { name: 'Put ours back' }).click();
  await expect(page.getByText('is as it was before')).toBeVisible();
  expect(projectText('parts', 'a.md')).toBe('one OURS\ntwo\n\nthree\n\nsix OURS');
});

test('the result can be edited, and that is what lands', async ({ page }) => {
  conflict('edits', { 'a.json': '{"port": 1, "host": "a"}\n' }, { 'a.json': '{"port": 2, "host": "a"}\n' }, { 'a.json': '{"port": 3, "host": "b"}\n' });
  await page.goto(at(`/reviews/${reviewOf('edits', 'a.json')}`));
  await expect(page.getByRole('heading', { name: '/port' })).toBeVisible();
  await expect(page.getByRole('button', { name: 'Take both' })).toHaveCount(0);
  // There is something to edit once the server has said what becomes of it.
  await expect(page.getByRole('region', { name: 'Result' }).getByRole('button', { name: 'Edit' })).toBeVisible();
  await page.keyboard.press('e');
  const editor = page.getByRole('region', { name: 'Result' }).locator('.cm-content[contenteditable=true]');
  await expect(editor).toBeFocused();
  await page.keyboard.press('Control+a');
  await page.keyboard.type('mine 12');
  await expect(page.getByText('1 of 1 decided')).toBeVisible();
  // Keys mean text while typing; Escape ends that, and does not leave.
  await page.keyboard.press('Escape');
  await expect(page.getByRole('button', { name: 'Discard edits' })).toBeVisible();
  await expect(page).toHaveURL(/\/reviews\/\w+/);
  await page.keyboard.press('Enter');
  await expect.poll(() => projectText('edits', 'a.json')).toBe('mine 12');
});

test('a proposal is taken by its key, and its words run nothing', async ({ page }) => {
  conflict('ideas', { 'a.txt': 'base\n' }, { 'a.txt': 'ours\n' }, { 'a.txt': 'theirs\n' });
  const id = reviewOf('ideas', 'a.txt');
  offshoot(['review', 'propose', id, '-', '--note', '<img src=x onerror=alert(1)>', '--operator', 'cyd'], '<script>alert(2)</script> both\n');
  await page.goto(at(`/reviews/${id}`));
  await expect(page.getByText('<img src=x onerror=alert(1)>')).toBeVisible();
  await page.keyboard.press('5');
  await expect(page.getByRole('region', { name: 'Result' })).toContainText('<script>alert(2)</script> both');
  await page.keyboard.press('Enter');
  await expect.poll(() => projectText('ideas', 'a.txt')).toBe('<script>alert(2)</script> both');
});

test('a deleted file and a protected one have choices in words', async ({ page }) => {
  conflict('wholes', { 'gone.txt': 'one\n', 'CLAUDE.md': 'be good\n' }, { 'gone.txt': 'one changed\n' }, { 'gone.txt': null, 'CLAUDE.md': 'be bad\n' }, ['--protect', 'CLAUDE.md']);
  await page.goto(at(`/reviews/${reviewOf('wholes', 'gone.txt')}?project=wholes`));
  await expect(page.getByRole('button', { name: 'Keep the file' })).toBeVisible();
  await page.getByRole('button', { name: 'Delete the file' }).click();
  await expect(page.getByText('The file is deleted.')).toBeVisible();
  // After a click the keys go on.
  await page.keyboard.press('Enter');
  await expect(page.getByText('CLAUDE.md is protected in wholes')).toBeVisible();
  await expect(page.getByRole('region', { name: /What .* did/ })).toContainText('be bad');
  await page.getByRole('button', { name: 'Refuse the change' }).click();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { name: 'Nothing to decide here' })).toBeVisible();
  await expect.poll(() => projectText('wholes', 'CLAUDE.md')).toBe('be good');
  expect(() => projectText('wholes', 'gone.txt')).toThrow();
});

test('a protected change is approved, and lands then and not before', async ({ page }) => {
  conflict('approved', { 'CLAUDE.md': 'be good\n' }, {}, { 'CLAUDE.md': 'be better\n' }, ['--protect', 'CLAUDE.md']);
  expect(projectText('approved', 'CLAUDE.md')).toBe('be good');
  await page.goto(at('/reviews?project=approved'));
  await page.getByRole('link', { name: /CLAUDE\.md/ }).click();
  await expect(page.getByText('CLAUDE.md is protected in approved')).toBeVisible();
  await page.getByRole('button', { name: 'Approve the change' }).click();
  expect(projectText('approved', 'CLAUDE.md')).toBe('be good');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { name: 'Nothing to decide here' })).toBeVisible();
  await expect.poll(() => projectText('approved', 'CLAUDE.md')).toBe('be better');
});

test('who is no admin may not decide a protected change', async ({ browser, faults }) => {
  conflict('guarded', { 'CLAUDE.md': 'be good\n' }, {}, { 'CLAUDE.md': 'be bad\n' }, ['--protect', 'CLAUDE.md']);
  const token = offshoot(['token', 'issue', '--project', 'guarded']);
  const context = await browser.newContext({ storageState: { cookies: [], origins: [] } });
  const page = await context.newPage();
  watch(page, faults);
  await page.goto(at(`/reviews/${reviewOf('guarded', 'CLAUDE.md')}`));
  await page.getByLabel('Sign-in link or token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page.getByText('Only the owner or an admin decides this')).toBeVisible();
  await page.keyboard.press('2');
  await expect(page.getByText('1 of 1 decided')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Resolve' })).toBeDisabled();
  await context.close();
});

test('those alike are decided at once, and a policy for the rest can be undone', async ({ page }) => {
  const files = (word: string) => Object.fromEntries(Array.from({ length: 3 }, (_, i) => [`n${i}.md`, `${word}\n`]));
  conflict('alike', files('base'), { ...files('ours'), 'x.txt': 'ours\n' }, { ...files('theirs'), 'x.txt': 'theirs\n' });
  await page.goto(at(`/reviews/${reviewOf('alike', 'n1.md')}?project=alike`));
  await expect(page.getByRole('button', { name: 'Alike: 3' })).toBeVisible();
  await page.keyboard.press('2');
  await expect(page.getByText('1 of 1 decided')).toBeVisible();
  await page.keyboard.press('a');
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByText('3 would be decided')).toBeVisible();
  await dialog.getByRole('checkbox', { name: /From now on decide \*\.md/ }).check();
  await dialog.getByRole('button', { name: 'Decide 3' }).click();
  await expect(page.getByText('3 reviews are decided')).toBeVisible();
  // The dry run decided nothing, the decision all of them; the other stays.
  expect([0, 1, 2].map((i) => projectText('alike', `n${i}.md`))).toEqual(['theirs', 'theirs', 'theirs']);
  await expect(page.getByRole('heading', { level: 1, name: 'x.txt' })).toBeVisible();
  expect(offshoot(['project', 'policy', 'alike'])).toMatch(/\*\.md +theirs/);
  await page.getByRole('button', { name: 'Undo' }).click();
  await expect(page.getByText('The policy is as it was')).toBeVisible();
  expect(offshoot(['project', 'policy', 'alike'])).not.toMatch(/\*\.md/);
});

test('a merge that lands as a whole says so, and a decision can be changed until then', async ({ page }) => {
  conflict('whole', { 'a.txt': 'base\n', 'b.txt': 'base\n' }, { 'a.txt': 'ours\n', 'b.txt': 'ours\n' }, { 'a.txt': 'theirs\n', 'b.txt': 'theirs\n' }, ['--landing', 'atomic']);
  await page.goto(at(`/reviews/${reviewOf('whole', 'a.txt')}?project=whole`));
  await expect(page.getByText('Nothing of this merge lands until all of its conflicts are decided. 1 other of this merge is open.')).toBeVisible();
  await page.keyboard.press('2');
  await expect(page.getByText('1 of 1 decided')).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(page.getByText('a.txt is decided; it lands with the rest of its merge')).toBeVisible();
  expect(projectText('whole', 'a.txt')).toBe('ours');
  await page.getByRole('button', { name: 'Change' }).click();
  await expect(page.getByText('until then you can choose again')).toBeVisible();
});

test('the queue is live, and Escape leads back to it', async ({ page }) => {
  conflict('later', { 'a.txt': 'base\n', 'b.txt': 'base\n' }, { 'a.txt': 'ours\n' }, { 'a.txt': 'theirs\n' });
  await page.goto(at('/reviews?project=later'));
  await expect(page.getByRole('link', { name: /a\.txt/ })).toBeVisible();
  offshoot(['fork', 'later', '--agent', 'later-third']);
  offshoot(['put', 'later-third', 'b.txt'], 'third\n');
  offshoot(['fork', 'later', '--agent', 'later-fourth']);
  offshoot(['put', 'later-fourth', 'b.txt'], 'fourth\n');
  offshoot(['complete', 'later-third']);
  tolerant(['complete', 'later-fourth']);
  await expect(page.getByRole('link', { name: /b\.txt/ })).toBeVisible();
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('heading', { level: 1 })).toBeFocused();
  await page.keyboard.press('J');
  await expect(page.getByText('2 of 2')).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page).toHaveURL(/\/reviews\?project=later$/);
  // Decided elsewhere, it goes from here.
  offshoot(['review', 'resolve', reviewOf('later', 'a.txt'), 'ours']);
  await expect(page.getByRole('link', { name: /a\.txt/ })).toHaveCount(0);
});

test('names, texts and messages of hostile agents run nothing', async ({ page }) => {
  const name = '<img src=x onerror=alert(1)>.md';
  const evil = '<script>alert(2)</script><img src=x onerror=alert(3)>';
  offshoot(['project', 'create', 'forged', '--from', directory({ [name]: 'base\n' })]);
  for (const side of ['one', 'two']) offshoot(['fork', 'forged', '--agent', `forger-${side}`]);
  for (const side of ['one', 'two']) {
    offshoot(['put', `forger-${side}`, name, '--message', `m-${evil}`], `${evil} ${side}\n`);
    tolerant(['complete', `forger-${side}`]);
  }
  await page.goto(at('/reviews?project=forged'));
  await page.getByRole('link', { name }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText(name);
  await expect(page.getByRole('group', { name: 'Theirs, line 1' })).toContainText(`${evil} two`);
  await page.keyboard.press('4');
  await expect(page.getByRole('region', { name: 'Result' })).toContainText(`${evil} one`);
  await page.keyboard.press('w');
  await expect(page.getByRole('region', { name: 'Base' })).toContainText('base');
  expect(await page.locator('main img, main script').count()).toBe(0);
});

test('what changed since is marked, and choices for older texts are taken back', async ({ page }) => {
  conflict('since', { 'a.txt': 'one\ntwo\nthree\nfour\nfive\nsix\nseven\n' }, { 'a.txt': 'ONE\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n' }, { 'a.txt': 'Eins\ntwo\nthree\nfour\nfive\nsix\nSieben\n' });
  await page.goto(at(`/reviews/${reviewOf('since', 'a.txt')}`));
  await expect(page.getByText('0 of 2 decided')).toBeVisible();
  await page.keyboard.press('2');
  await expect(page.getByText('1 of 2 decided')).toBeVisible();
  offshoot(['project', 'put', 'since', 'a.txt'], 'Uno\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n');
  await expect(page.getByText('The file changed just now')).toBeVisible();
  await expect(page.getByText('0 of 2 decided')).toBeVisible();
  await expect(page.getByRole('group', { name: 'Ours, line 1' })).toContainText('Uno');
  await page.reload();
  await expect(page.getByText('since has changed this file since the conflict was found')).toBeVisible();
});

test('a decision that fails comes back with its reason', async ({ page }) => {
  conflict('busy-project', { 'a.txt': 'base\n', 'b.txt': 'base\n' }, { 'a.txt': 'ours\n', 'b.txt': 'ours\n' }, { 'a.txt': 'theirs\n', 'b.txt': 'theirs\n' });
  const id = reviewOf('busy-project', 'a.txt');
  await page.route(`**/reviews/${id}/resolve`, (route) => route.fulfill({ status: 423, json: { error: { code: 'workspace_busy', message: 'it is held by another operation' } } }));
  await page.goto(at(`/reviews/${id}?project=busy-project`));
  await expect(page.getByText('0 of 1 decided')).toBeVisible();
  await page.keyboard.press('2');
  await expect(page.getByText('1 of 1 decided')).toBeVisible();
  await page.keyboard.press('Enter');
  // The next is there at once; the failure follows and leads back.
  await expect(page.getByRole('heading', { level: 1, name: 'b.txt' })).toBeVisible();
  await expect(page.getByText('a.txt was not decided')).toBeVisible();
  await expect(page.getByText('[workspace_busy]')).toBeVisible();
  await page.getByRole('button', { name: 'Look' }).click();
  await expect(page.getByRole('heading', { level: 1, name: 'a.txt' })).toBeVisible();
  await expect(page.getByText('1 of 1 decided')).toBeVisible();
  expect(projectText('busy-project', 'a.txt')).toBe('ours');
});

for (const theme of ['light', 'dark'] as const) {
  test(`no serious fault of accessibility in reviews, ${theme}`, async ({ page }) => {
    // Four pages, each looked at as a whole.
    test.slow();
    if (theme === 'light') conflict('seen', { 'a.md': lines('one', 'six'), 'b.txt': 'x\n' }, { 'a.md': lines('ours', 'OURS'), 'b.txt': 'y\n' }, { 'a.md': lines('theirs', 'THEIRS'), 'b.txt': null });
    await look(page, theme);
    await page.goto(at('/reviews?project=seen'));
    await expect(page.getByRole('link', { name: /a\.md/ })).toBeVisible();
    expect(await seriousFaults(page)).toEqual([]);
    await page.goto(at(`/reviews/${reviewOf('seen', 'a.md')}?project=seen`));
    await expect(page.getByRole('heading', { name: 'line 6' })).toBeVisible();
    await page.keyboard.press('1');
    await expect(page.locator('.cm-content').first()).toBeVisible();
    expect(await seriousFaults(page)).toEqual([]);
    await page.keyboard.press('w');
    await expect(page.getByRole('region', { name: 'Base' })).toBeVisible();
    expect(await seriousFaults(page)).toEqual([]);
    await page.goto(at(`/reviews/${reviewOf('seen', 'b.txt')}?project=seen`));
    await expect(page.getByRole('button', { name: 'Delete the file' })).toBeVisible();
    expect(await seriousFaults(page)).toEqual([]);
  });
}

test('no serious fault of accessibility in a review on a phone, in Chinese', async ({ page }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await look(page, 'light', 'zh');
  await page.goto(at(`/reviews/${reviewOf('seen', 'a.md')}?project=seen`));
  await page.getByRole('button', { name: '采用对方' }).click();
  await expect(page.getByText('已裁决 1 / 2')).toBeVisible();
  expect(await seriousFaults(page)).toEqual([]);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
});
