// A hostile agent fills every place that a person looks at; then the person looks at every page.
import { test as base, type BrowserContext, type Page } from '@playwright/test';
import { fileName, intruders, listen, payloads, program, watched } from './attack';
import { at, directory, expect, half, offshoot, tolerant } from './kit';

let home: Awaited<ReturnType<typeof listen>>;
let evil: string[];
let context: BrowserContext;
let page: Page;
let seen = 0;
const faults: string[] = [];
const test = base;
test.describe.configure({ mode: 'default', timeout: 600_000 });

const part = encodeURIComponent;
// A worker that begins again after a failure plants everything anew.
const TURN = process.env.TEST_WORKER_INDEX ?? '0';
const WORKSPACE = `hostile-ws-${TURN}`;
const PROJECT = `hostile-project-${TURN}`;
const forkOf = (name: string) => `hostile-${name}-${TURN}`;

/** One file of each kind, holding everything. */
function kinds(all: string[]): Record<string, string> {
  const lines = all.join('\n\n');
  return {
    'all.md': `# all\n\n${lines}\n\n${all.map((one) => `[link](<${one.replace(/[<>]/g, '')}>)`).join('\n\n')}\n\n[up](%2e%2e/%2e%2e/%2e%2e/settings/tokens) ![up](%2e%2e%2f%2e%2e%2f%2e%2e%2f%2e%2e%2fme)\n\n| ${all[4]} | b |\n|---|---|\n| ${all[6]} | c |\n\n\`\`\`html"><img src=x onerror=__ran=1>\n${lines}\n\`\`\`\n`,
    'all.html': `<!doctype html><title>x</title><h1>Page</h1>${lines}<script>try { parent.__ran = 1 } catch {} fetch('/api/v1/me')</script><form action=/sign-out method=post><button>x</button></form><script>document.forms[0].submit(); top.location = '${home.url}/top'</script>`,
    'all.svg': `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" onload="parent.__ran=1"><script>parent.__ran=1</script><image xlink:href="${home.url}/svg"/><foreignObject><body xmlns="http://www.w3.org/1999/xhtml"><img src="${home.url}/foreign"/></body></foreignObject><style>@import url(${home.url}/import);</style></svg>`,
    'all.csv': `${all.map((one) => `"${one.replaceAll('"', '""')}"`).join(',')}\n"=HYPERLINK(""${home.url}"")",<b>\n`,
    'all.tsv': `a\tb\n${all[4]}\t${all[6]}\n`,
    'all.json': JSON.stringify(Object.fromEntries(all.map((one) => [one, { [one]: one }]))),
    'broken.json': `{"a": ${all[4]}`,
    'all.pdf': `%PDF-1.7\n1 0 obj<</Type/Catalog/Pages 2 0 R/OpenAction<</S/JavaScript/JS(app.alert\\(1\\);__ran=1)>>>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Annots[<</Type/Annot/Subtype/Link/Rect[0 0 200 200]/A<</S/URI/URI(javascript:__ran=1)>>>>]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n`,
    'all.xhtml': '<html xmlns="http://www.w3.org/1999/xhtml"><script>parent.__ran=1</script></html>',
    'page.png': `<html><script>parent.__ran=1</script></html>`,
    'all.css': `${all[26]}\n* { background: url(${home.url}/css) }`,
    'all.txt': lines,
  };
}

/** Looks at a page until what should be there is there, and finds nothing in it that is not ours. */
async function look(path: string, sign?: string | RegExp): Promise<void> {
  await page.goto(at(path));
  await settled(path, sign);
}
async function settled(what: string, sign?: string | RegExp): Promise<void> {
  if (sign) await expect(page.getByText(sign).filter({ visible: true }).first(), what).toBeVisible();
  else await expect(page.locator('main').first(), what).toBeVisible();
  await expect(page.locator('.skeleton'), what).toHaveCount(0);
  expect(await intruders(page), what).toEqual([]);
  seen += 1;
}

test.beforeAll(async ({ browser }) => {
  test.setTimeout(600_000);
  home = await listen();
  evil = payloads(home.url);
  expect(evil.length).toBeGreaterThan(25);
  const ask = program();
  const must = async (...args: Parameters<typeof ask>) => {
    const answer = await ask(...args);
    if (!answer.ok) throw new Error(`${args[0]} ${args[1]}: ${await answer.text()}`);
    return answer.json() as Promise<Record<string, unknown>>;
  };
  const put = (workspace: string, name: string, text: string, message?: string) =>
    must('PUT', `/workspaces/${workspace}/files/${name.split('/').map((one) => one.split(/(\\x[0-9a-f]{2})/).map((piece, i) => (i % 2 ? `%${piece.slice(2)}` : part(piece))).join('')).join('/')}`, text, message ? { 'offshoot-message-id': message } : {});

  offshoot(['workspace', 'create', WORKSPACE]);
  for (const [i, one] of evil.entries()) {
    await put(WORKSPACE, `names/${fileName(one)}.${['md', 'txt', 'html', 'json', 'csv'][i % 5]}`, `${one}\n`, /^[\x20-\x7e]{1,128}$/.test(one) ? one : undefined);
    await put(WORKSPACE, `${fileName(one)}/in.txt`, one);
    await must('POST', `/workspaces/${WORKSPACE}/snapshots`, { label: one });
    // A label is also a name in the history, which may not hold everything.
    await ask('POST', '/tokens', { workspace: WORKSPACE, label: one, ttl_s: 3600 });
    await ask('POST', '/agents', { parent: 'root', role: one });
  }
  for (const [name, text] of Object.entries(kinds(evil))) await put(WORKSPACE, name, text, evil[4]);
  // A name that looks like another is refused at the door.
  expect(() => offshoot(['put', WORKSPACE, 'all.txt', '--operator', 'exe.\u202Egnp'], 'x')).toThrow();
  offshoot(['put', WORKSPACE, 'all.txt', '--operator', evil[37]!, '--message', evil[34]!], evil.toReversed().join('\n\n'));

  const names = evil.slice(0, 8).map((one) => `${fileName(one)}.md`);
  offshoot(['project', 'create', PROJECT, '--from', directory({ ...Object.fromEntries(names.map((name) => [name, 'base\n'])), 'all.json': '{"a": 1}\n', 'safe.txt': 'safe\n' })]);
  await must('PUT', `/projects/${PROJECT}/policy`, { policies: evil.filter((one) => !/[\s\\]/.test(one)).map((path) => ({ path, policy: 'review' })), protect: ['safe.txt', evil[0]!.replaceAll(' ', '')] });
  for (const side of ['ours', 'theirs']) {
    const fork = forkOf(side);
    offshoot(['fork', PROJECT, '--agent', fork]);
    for (const [i, name] of names.entries()) await put(fork, name, `${evil[i]} ${side}\n${evil.join('\n')}\n`, evil[i]);
    for (const one of evil) await put(fork, `added/${fileName(one)}-${side}`, one, 'm-1');
    await put(fork, 'all.json', JSON.stringify({ [evil[4]!]: side, a: evil[0] + side }));
    if (side === 'theirs') await put(fork, 'safe.txt', evil.join('\n'));
    tolerant(['complete', fork, '-m', evil[side === 'ours' ? 0 : 4]!, '--message', evil[6]!]);
  }
  offshoot(['fork', PROJECT, '--agent', forkOf('open')]);
  await put(forkOf('open'), names[0]!, evil.join('\n'));
  const { reviews } = JSON.parse(offshoot(['--json', 'review', 'list'])) as { reviews: { id: string; project: string }[] };
  for (const one of evil.slice(0, 6)) await must('POST', `/reviews/${reviews.find((review) => review.project === PROJECT)!.id}/candidates`, { content: evil.join('\n'), note: one });

  context = await browser.newContext({ storageState: 'test-results/signed-in.json' });
  page = await watched(context, faults);
});

test.afterEach(() => {
  expect(faults).toEqual([]);
  expect(home.calls).toEqual([]);
});
test.afterAll(async () => {
  await context?.close();
  await home?.close();
  expect(seen, 'pages were looked at').toBeGreaterThan(0);
});

test('home, lists of files, and a preview of every kind', async () => {
  await look('/', PROJECT);
  await look(`/w/${WORKSPACE}/f/`, '__ran');
  await look(`/w/${WORKSPACE}/f/names/`, '__ran');
  const signs: Record<string, RegExp> = { 'all.md': /^all$/, 'all.csv': /HYPERLINK/, 'all.json': /__proto__/ };
  for (const name of Object.keys(kinds(evil))) {
    await look(`/w/${WORKSPACE}/f/${name}`, signs[name] ?? name);
    if (name === 'all.html') await expect(page.frameLocator('iframe').getByRole('heading', { name: 'Page' })).toBeVisible();
    if (name === 'all.md') {
      await expect(page.locator('.markdown h1')).toHaveText('all');
      await settled('Markdown');
      // No way up and out of the workspace, neither for links nor for images.
      const hrefs = await page.locator('.markdown a').evaluateAll((all) => all.map((one) => (one as HTMLAnchorElement).pathname));
      expect(hrefs.filter((href) => href.startsWith('/settings'))).toEqual([]);
      const sources = await page.locator('.markdown img').evaluateAll((all) => all.map((one) => one.getAttribute('src') ?? 'blob:'));
      expect(sources.filter((source) => !source.startsWith('blob:'))).toEqual([]);
    }
    await look(`/w/${WORKSPACE}/f/${name}?view=edit`, name);
    await look(`/w/${WORKSPACE}/f/${name}?view=blame`, name);
  }
});

test('every payload as the name of a file that is open', async () => {
  const { entries } = (await (await page.request.get(at(`/api/v1/workspaces/${WORKSPACE}/list?path=names`), { headers: half() })).json()) as { entries: { path: string; name: string }[] };
  expect(entries.length).toBe(evil.length);
  for (const { path } of entries) await look(`/w/${WORKSPACE}/f/${path.split('/').map(part).join('/')}`);
});

test('changes, time, differences in both shapes, disk and use', async () => {
  await look(`/w/${WORKSPACE}/changes`, 'all.txt');
  await look(`/w/${forkOf('open')}/changes`, '__ran');
  await page.goto(at(`/w/${WORKSPACE}/time`));
  await expect(page.getByRole('row').nth(3)).toBeVisible();
  await settled('time', 'all.txt');
  await page.keyboard.press('s');
  await expect(page.locator('.cm-mergeView').first()).toBeVisible();
  await settled('time, split');
  await page.keyboard.press('s');
  await page.keyboard.press('r');
  await expect(page.getByRole('dialog')).toBeVisible();
  await settled('restore');
  await look(`/w/${WORKSPACE}/time?path=all.txt`, 'all.txt');
  await look(`/w/${WORKSPACE}/disk`, 'names');
  await look(`/w/${WORKSPACE}/use`);
});

test('the project: graph, snapshot, files, merges, receipt, policy', async () => {
  await look('/p', PROJECT);
  await look(`/p/${PROJECT}`, evil[4]!);
  for (const { merge_id: merge, snapshot } of (JSON.parse(offshoot(['--json', 'merge', 'log', PROJECT])) as { merges: { merge_id: string; snapshot: string }[] }).merges) {
    await look(`/p/${PROJECT}?at=${snapshot.slice(0, 12)}`, '__ran');
    await look(`/p/${PROJECT}/merges/${merge}`, 'added');
    await look(`/p/${PROJECT}/merges/${merge}?do=undo`, 'added');
  }
  await look(`/p/${PROJECT}/merges`, forkOf('ours'));
  await look(`/p/${PROJECT}/files/`, 'safe.txt');
  for (const view of ['', '?view=versions', '?view=blame', '?view=source']) await look(`/p/${PROJECT}/files/${part(`${fileName(evil[0]!)}.md`)}${view}`, '__ran');
  await look(`/p/${PROJECT}/policy`, 'constructor');
  await look(`/p/${PROJECT}?do=fork`, 'How many');
  await look(`/w/${forkOf('open')}/f/?do=complete`, forkOf('open'));
});

test('reviews, agents and settings', async () => {
  await look(`/reviews?project=${PROJECT}`, 'safe.txt');
  const { reviews } = JSON.parse(offshoot(['--json', 'review', 'list'])) as { reviews: { id: string; project: string }[] };
  for (const { id } of reviews.filter((one) => one.project === PROJECT)) {
    await look(`/reviews/${id}`, '__ran');
    await page.keyboard.press('5');
    await page.keyboard.press('w');
    await settled(`review ${id}`);
  }
  await look('/agents', '__ran');
  for (const tab of ['tokens', 'quotas', 'mcp', 'server', 'preferences']) await look(`/settings/${tab}`);
});

test('addresses that somebody was sent', async () => {
  for (const one of evil.map(part)) await look(`/w/${WORKSPACE}/f/${one}?view=${one}&do=${one}#${one}`);
  const some = [4, 18, 35].map((i) => part(evil[i]!));
  for (const one of some) {
    for (const path of [`/p/${one}`, `/p/${PROJECT}/files/${one}?at=${one}#L1-9`, `/w/${one}/f/`, `/w/${one}/time`, `/reviews/${one}`, `/reviews?project=${one}&agent=${one}`, `/settings/${one}`, `/settings/mcp?as=agent&name=${one}`, `/settings/tokens?do=issue&reach=${one}&name=${one}`, `/w/${WORKSPACE}/time?path=${one}&from=${one}&to=${one}`, `/p/${PROJECT}?at=${one}&do=fork-here`, `/p/${PROJECT}/merges/${one}`, `/p?do=new&name=${one}`, `/agents?do=add&role=${one}`, `/${one}`]) await look(path);
  }
});

test('the palette, uploads, what agents show, and errors', async () => {
  await look(`/w/${WORKSPACE}/f/`, '__ran');
  await page.keyboard.press('Control+k');
  for (const one of ['__ran', 'onerror', 'exe', evil[4]!]) {
    await page.getByRole('combobox').fill(one);
    await expect(page.getByRole('combobox')).toHaveValue(one);
    await settled(`palette ${one}`);
  }
  await page.keyboard.press('Escape');

  offshoot(['workspace', 'create', forkOf('up')]);
  await look(`/w/${forkOf('up')}/f/`);
  const files = evil.filter((one) => !one.includes('\\')).map((one) => ({ name: `${one.replaceAll('/', '∕').slice(0, 150)}.txt`, mimeType: 'text/html', buffer: Buffer.from(one) }));
  await page.locator('input[type=file]').setInputFiles(files);
  await expect.poll(() => offshoot(['ls', forkOf('up')]).split('\n').length).toBeGreaterThan(30);
  await settled('uploads');

  const ask = program(['--workspace', WORKSPACE]);
  for (const one of evil.slice(0, 5)) {
    const answer = await ask('POST', '/tools/show_files', { paths: [`${fileName(one)}/in.txt`] });
    expect(answer.ok, await answer.clone().text()).toBe(true);
  }
  await expect(page.getByText('in.txt').first()).toBeVisible();
  await settled('shown elsewhere');

  for (const one of [evil[0]!, evil[4]!, evil[33]!, `\`${evil[4]}\``]) {
    await page.route('**/api/v1/agents*', (route) => route.fulfill({ status: 500, headers: { 'x-request-id': 'a"><b>' }, json: { error: { code: one, message: one, hint: one, details: { [one]: one } } } }));
    await look('/agents', /__ran|exe/);
    await page.unroute('**/api/v1/agents*');
  }
});
