// Who may act as the person: another site, a page of an agent, a stored file, a link that leads away.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from '@playwright/test';
import { program } from './attack';
import { at, expect, half, offshoot, test } from './kit';

const server = () => process.env.OFFSHOOT_URL!;

test('the cookie is out of reach of scripts and other sites', async () => {
  const token = offshoot(['token', 'issue', '--admin']);
  const answer = await fetch(`${server()}/sign-in`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ token }) });
  expect(answer.status).toBe(200);
  const cookie = answer.headers.get('set-cookie') ?? '';
  expect(cookie).not.toContain(token);
  for (const flag of ['HttpOnly', 'SameSite=Strict', 'Path=/', 'Max-Age=']) expect(cookie).toContain(flag);
  expect(cookie).not.toMatch(/domain=/i);
});

test('no way back after a sign-in leads to another site', async ({ browser }) => {
  for (const next of ['//evil.invalid', '/\\evil.invalid', 'https://evil.invalid', 'javascript:alert(1)', '/%2Fevil.invalid', '/\t/evil.invalid', '/%09/evil.invalid', '/%5Cevil.invalid']) {
    const answer = await fetch(`${server()}/sign-in?code=x&next=${encodeURIComponent(next)}`, { redirect: 'manual', headers: { accept: 'text/html' } });
    expect([answer.status, answer.headers.get('location')], next).toEqual([400, null]);
  }
  // Nor an address of the page itself that begins with two slashes.
  const context = await browser.newContext({ storageState: { cookies: [], origins: [] } });
  const page = await context.newPage();
  const away: string[] = [];
  page.on('request', (request) => { if (!request.url().startsWith(at('/'))) away.push(request.url()); });
  page.on('pageerror', (error) => away.push(error.message));
  await page.goto(at('//evil.invalid/w/x'));
  await page.getByLabel('Sign-in link or token').fill(offshoot(['token', 'issue', '--admin']));
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page.getByRole('button', { name: 'Sign in' })).toHaveCount(0);
  expect(new URL(page.url()).host).toBe(new URL(at('/')).host);
  expect(away).toEqual([]);
  await context.close();
});

test('a page on another port changes nothing, reads nothing and frames nothing', async ({ browser }) => {
  offshoot(['workspace', 'create', 'forged']);
  offshoot(['put', 'forged', 'kept.txt'], 'kept\n');
  // The same host, so the browser counts it to the same site and sends the cookie: only our checks are left.
  const evil = createServer((_, answer) => answer.writeHead(200, { 'content-type': 'text/html' }).end('<title>evil</title><body>'));
  await new Promise<void>((resolve) => evil.listen(0, '127.0.0.1', resolve));
  // Straight to the server: the preview in front of it drops the origin.
  const context = await browser.newContext({ storageState: 'test-results/signed-in.json' });
  const page = await context.newPage();
  await page.goto(`${server()}/`);
  await expect(page.getByRole('main')).toBeVisible();
  await page.goto(`http://127.0.0.1:${(evil.address() as AddressInfo).port}/`);
  const got = await page.evaluate(async (url) => {
    const tries: [string, RequestInit][] = [
      ['/api/v1/me', { credentials: 'include' }],
      ['/api/v1/events', { credentials: 'include' }],
      ['/api/v1/workspaces/forged/files/kept.txt', { method: 'DELETE', credentials: 'include' }],
      ['/api/v1/workspaces/forged/files/kept.txt', { method: 'PUT', credentials: 'include', body: 'gone' }],
      ['/api/v1/workspaces', { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{"id":"forged-too"}' }],
      ['/api/v1/workspaces/forged/uploads', { method: 'POST', mode: 'no-cors', credentials: 'include', body: new FormData() }],
      ['/api/upload', { method: 'POST', mode: 'no-cors', credentials: 'include', body: new FormData() }],
      ['/sign-out', { method: 'POST', mode: 'no-cors', credentials: 'include' }],
    ];
    const read: string[] = [];
    for (const [path, init] of tries) {
      try {
        const answer = await fetch(url + path, init);
        if (answer.type !== 'opaque') read.push(`${path} ${answer.status}`);
      } catch { /* refused, as it should be */ }
    }
    const loads = (element: HTMLElement, source: string) => new Promise<string>((resolve) => {
      element.addEventListener('load', () => resolve(`${element.tagName} loaded ${source}`));
      element.addEventListener('error', () => resolve(''));
      element.setAttribute('src', url + source);
      document.body.append(element);
    });
    read.push(await loads(document.createElement('script'), '/api/v1/me'));
    read.push(await loads(document.createElement('img'), '/icon.svg'));
    // A form, as old as the web.
    const frame = Object.assign(document.createElement('iframe'), { name: 'into' });
    document.body.append(frame);
    const form = Object.assign(document.createElement('form'), { method: 'post', action: `${url}/sign-out`, target: 'into' });
    document.body.append(form);
    const answered = new Promise((resolve) => frame.addEventListener('load', resolve, { once: true }));
    form.submit();
    await answered;
    return read.filter(Boolean);
  }, server());
  expect(got).toEqual([]);
  for (const path of ['/', '/w/forged/f/', '/api/v1/workspaces/forged/files/kept.txt?preview=true', '/docs']) {
    await page.evaluate((source) => new Promise((resolve) => {
      const frame = Object.assign(document.createElement('iframe'), { src: source, className: 'framed' });
      frame.addEventListener('load', resolve);
      document.body.append(frame);
    }), `${server()}${path}`);
    const framed = page.frames().at(-1)!;
    // Chromium shows a page of its own in place of what may not be framed.
    expect(framed.url(), path).toBe('chrome-error://chromewebdata/');
  }
  expect(offshoot(['cat', 'forged', 'kept.txt'])).toBe('kept');
  expect(offshoot(['workspace', 'list'])).not.toContain('forged-too');
  // Still signed in: the forged sign-out was refused.
  expect((await context.request.get(`${server()}/api/v1/me`, { headers: half() })).status()).toBe(200);
  await context.close();
  await new Promise((resolve) => { evil.closeAllConnections(); evil.close(resolve); });
});

test('a stored file is never a page of ours', async ({ page, context }) => {
  offshoot(['workspace', 'create', 'stored']);
  const script = '<script>document.title = "ran"; opener && (opener.__ran = 1)</script>';
  const files: Record<string, string> = {
    'a.html': `<!doctype html><title>still</title>${script}`,
    'a.svg': '<svg xmlns="http://www.w3.org/2000/svg" onload="document.title=\'ran\'"><title>still</title><script>document.title="ran"</script></svg>',
    'a.xhtml': `<html xmlns="http://www.w3.org/1999/xhtml"><head><title>still</title></head><body>${script}</body></html>`,
    'a.xml': `<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="a.xsl"?><html xmlns="http://www.w3.org/1999/xhtml">${script}</html>`,
    'a.txt': `<!doctype html>${script}`,
    'a.png': `<!doctype html>${script}`,
    none: `<!doctype html>${script}`,
    'a"; filename=b.html': script,
  };
  for (const [name, text] of Object.entries(files)) offshoot(['put', 'stored', name], text);
  offshoot(['put', 'stored', 'odd', '--mime', 'text/html'], script);
  for (const name of [...Object.keys(files), 'odd']) {
    const url = `${server()}/api/v1/workspaces/stored/files/${encodeURIComponent(name)}`;
    for (const [query, how] of [['', 'attachment'], ['?preview=true', 'inline']] as const) {
      const answer = await page.request.get(url + query, { headers: half() });
      const headers = answer.headers();
      expect(answer.status(), name).toBe(200);
      expect(headers['x-content-type-options'], name).toBe('nosniff');
      expect(headers['content-security-policy'], name).toMatch(/^sandbox; default-src 'none'/);
      expect(headers['cross-origin-resource-policy'], name).toBe('same-origin');
      expect(headers['content-disposition'], name).toBe(`${how}; filename*=UTF-8''${encodeURIComponent(name)}`);
    }
  }
  for (const name of ['a.html', 'a.svg', 'a.xhtml', 'a.xml', 'a.txt', 'odd']) {
    const tab = await context.newPage();
    const address = `/api/v1/workspaces/stored/files/${name}?preview=true`;
    const ticket = await page.request.post(`${server()}/api/v1/tickets`, { headers: half(), data: { address } });
    await tab.goto(server() + ((await ticket.json()) as { address: string }).address);
    expect(await tab.title(), name).not.toBe('ran');
    // An origin of its own, which shares nothing with ours.
    expect(await tab.evaluate(() => self.origin), name).toBe('null');
    await tab.close();
  }
  const frame = page.locator('iframe');
  await page.goto(at('/w/stored/f/a.html'));
  await expect(frame).toHaveAttribute('sandbox', '');
  await expect(page.frameLocator('iframe').locator('script')).toHaveCount(1);
  // Nor a script, a style or a worker of one.
  offshoot(['put', 'stored', 'a.js'], 'window.__ran = 1; self.postMessage?.(1)');
  const loaded = await page.evaluate(async (headers) => {
    const address = '/api/v1/workspaces/stored/files/a.js?preview=true';
    const ticket = async () => {
      const answer = await fetch('/api/v1/tickets', { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify({ address }) });
      return ((await answer.json()) as { address: string }).address;
    };
    const tries = [];
    for (const [tag, name] of [['script', 'src'], ['link', 'href']] as const) {
      const element = document.createElement(tag);
      if (tag === 'link') element.setAttribute('rel', 'stylesheet');
      const ended = new Promise<string>((resolve) => { element.onload = () => resolve('loaded'); element.onerror = () => resolve('refused'); });
      try { element.setAttribute(name, await ticket()); document.head.append(element); tries.push(await ended); } catch { tries.push('refused'); }
    }
    return [...tries, '__ran' in window];
  }, half());
  expect(loaded).toEqual(['refused', 'refused', false]);
});

test('a server on another port gets the cookie and can do nothing with it', async ({ browser }) => {
  offshoot(['workspace', 'create', 'stolen']);
  offshoot(['put', 'stolen', 'kept.txt'], 'kept\n');
  // What an agent started, and the person opens to look at.
  const heard: string[] = [];
  const thief = createServer((request, answer) => {
    heard.push(request.headers.cookie ?? '');
    answer.writeHead(200, { 'content-type': 'text/html', 'set-cookie': 'offshoot_session=mine; Path=/; HttpOnly' }).end('<title>app</title>');
  });
  await new Promise<void>((resolve) => thief.listen(0, '127.0.0.1', resolve));
  const context = await browser.newContext({ storageState: 'test-results/signed-in.json' });
  const page = await context.newPage();
  await page.goto(`${server()}/w/stolen/f/`);
  await expect(page.getByRole('gridcell', { name: 'kept.txt' })).toBeVisible();
  await page.goto(`http://127.0.0.1:${(thief.address() as AddressInfo).port}/`);
  const cookie = heard.find((text) => text.includes('offshoot_session='))!;
  expect(cookie, 'browsers send it there').toBeTruthy();
  expect(await page.evaluate(() => localStorage.getItem('offshoot.page'))).toBeNull();
  // Not as a browser would, and not as any other program.
  const tries: [string, string, RequestInit?][] = [
    ['GET', '/api/v1/me'], ['GET', '/api/v1/events'], ['GET', '/api/v1/tokens'],
    ['GET', '/api/v1/workspaces/stolen/files/kept.txt'], ['GET', '/api/v1/workspaces/stolen/archive?format=zip'],
    ['PUT', '/api/v1/workspaces/stolen/files/kept.txt', { body: 'gone' }], ['DELETE', '/api/v1/workspaces/stolen/files/kept.txt'],
    ['POST', '/api/v1/tickets', { body: '{"address":"/api/v1/me"}' }], ['POST', '/api/v1/tokens', { body: '{"admin":true}' }], ['POST', '/sign-out'],
  ];
  const token = cookie.split('offshoot_session=')[1]!.split(';')[0]!;
  for (const [method, path, init] of tries) {
    const all: Record<string, string>[] = [{ cookie }, { cookie, 'offshoot-page': token }, { cookie, 'offshoot-csrf': token }, { authorization: `Bearer ${token}` }];
    for (const headers of all) {
      const answer = await fetch(server() + path, { method, ...init, headers });
      expect(answer.status, `${method} ${path}`).toBe(401);
    }
  }
  expect(offshoot(['cat', 'stolen', 'kept.txt'])).toBe('kept');
  // It set a cookie of its own for all ports: the page knows it for none of its halves, and says what to do.
  await page.goto(`${server()}/w/stolen/f/`);
  await expect(page.getByRole('button', { name: 'Sign in' })).toBeVisible();
  await page.getByLabel('Sign-in link or token').fill(offshoot(['token', 'issue', '--admin']));
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page.getByRole('gridcell', { name: 'kept.txt' })).toBeVisible();
  await context.close();
  await new Promise((resolve) => { thief.closeAllConnections(); thief.close(resolve); });
});

test('a sign-in holds for every tab of its browser, and for no other', async ({ browser }) => {
  offshoot(['workspace', 'create', 'tabs']);
  offshoot(['put', 'tabs', 'one.txt'], 'one\n');
  const file = (page: Page) => page.getByRole('gridcell', { name: 'one.txt' });
  const context = await browser.newContext({ storageState: 'test-results/signed-in.json' });
  const page = await context.newPage();
  await page.goto(at('/w/tabs/f/'));
  await expect(file(page)).toBeVisible();
  await page.reload();
  await expect(file(page)).toBeVisible();
  const [tab] = await Promise.all([context.waitForEvent('page'), file(page).getByRole('link').or(page.getByRole('link', { name: 'Changes' })).first().click({ modifiers: ['ControlOrMeta'] })]);
  await expect(tab.getByRole('main')).toBeVisible();
  await expect(tab.getByRole('button', { name: 'Sign in' })).toHaveCount(0);
  // The half of the page goes: no tab shows anything until somebody signs in, and then all do.
  await page.evaluate(() => localStorage.removeItem('offshoot.page'));
  await page.reload();
  await expect(page.getByText('offshoot token issue --admin')).toBeVisible();
  await page.getByLabel('Sign-in link or token').fill(offshoot(['token', 'issue', '--admin']));
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(file(page)).toBeVisible();
  await tab.goto(at('/w/tabs/f/'));
  await expect(file(tab)).toBeVisible();
  const other = await browser.newContext({ storageState: { cookies: [], origins: [] } });
  const stranger = await other.newPage();
  await stranger.goto(at('/w/tabs/f/'));
  await expect(stranger.getByRole('button', { name: 'Sign in' })).toBeVisible();
  await other.close();
  await context.close();
});

test('a page goes on when what it kept, or hears from elsewhere, is not what it wrote', async ({ page }) => {
  offshoot(['workspace', 'create', 'poisoned']);
  offshoot(['put', 'poisoned', 'a.txt'], 'text\n');
  const junk = ['{', 'null', '[]', '"<img src=x onerror=alert(1)>"', '{"text":5}', '-1e999'];
  await page.goto(at('/'));
  for (const value of junk) {
    await page.evaluate((text) => {
      for (const name of ['theme', 'language', 'keys', 'sort', 'diff', 'split.tree', 'split.file', 'draft:poisoned:a.txt']) localStorage.setItem(`offshoot.${name}`, text);
      for (const name of Object.keys(localStorage)) if (name !== 'offshoot.page') localStorage.setItem(name, text);
    }, value);
    await page.goto(at('/w/poisoned/f/a.txt'));
    await expect(page.getByRole('gridcell', { name: 'a.txt' }), value).toBeVisible();
    await expect(page.locator('.cm-content'), value).toHaveText('text');
    await page.goto(at('/w/poisoned/time'));
    await expect(page.getByText('a.txt').first(), value).toBeVisible();
  }
  await page.evaluate((half) => { localStorage.clear(); localStorage.setItem('offshoot.page', half); }, process.env.OFFSHOOT_HALF!);
  await page.goto(at('/w/poisoned/f/'));
  await expect(page.getByRole('gridcell', { name: 'a.txt' })).toBeVisible();
  await page.evaluate(() => {
    const channel = new BroadcastChannel('offshoot-live');
    const odd = [null, 5, 'x', {}, { kind: 'changes' }, { kind: 'changes', changes: [null], seq: 1 }, { kind: 'show', show: null }, { kind: 'show', show: { workspace: 'poisoned', paths: ['../../../settings/tokens'], operator: 'x' } }, { kind: 'reset' }, { kind: 'state' }];
    for (const message of odd) { channel.postMessage(message); window.postMessage(message, '*'); }
  });
  // What was shown last is a file that is not there, and no way to another page.
  await expect(page).toHaveURL(/\/w\/poisoned\/f\/.*settings\/tokens$/);
  await page.goBack();
  offshoot(['put', 'poisoned', 'later.txt'], 'x\n');
  await expect(page.getByText('later.txt').first()).toBeVisible();
});

test('an address that hides a way up asks the API for nothing else', async ({ page }) => {
  offshoot(['workspace', 'create', 'ways']);
  offshoot(['put', 'ways', 'a.txt'], 'a\n');
  const asked: string[] = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  for (const path of ['/w/ways/f/x%2F..%2F..%2F..%2F..%2Ftokens', '/w/ways/f/..%2F..%2F..%2Ftokens', '/p/ways/files/..%2F..%2F..%2Ftokens']) {
    await page.goto(at(path));
    await expect(page.getByRole('main')).toBeVisible();
    await expect(page.getByText('There is nothing at this address')).toBeVisible();
  }
  expect(asked.filter((path) => path.endsWith('/tokens'))).toEqual([]);
  const ask = program();
  expect((await ask('GET', '/workspaces/ways/files/%5Cx2E%5Cx2E/a')).status).toBeGreaterThanOrEqual(400);
});
