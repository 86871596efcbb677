// Takes the pictures of docs/screenshots: every view in English and Chinese, some dark and on a phone.
// `npm run screenshots` takes all, `npm run screenshots -- -g home` those of one name.
import { mkdirSync, writeFileSync } from 'node:fs';
import type { Browser, Page } from '@playwright/test';
import { look } from '../axe';
import { at, expect, test, watch } from '../kit';
import { smaller } from './png';
import { shifted, type Story } from './story';

const DIR = '../docs/screenshots';
/** A picture is for reading on a page, so it may not weigh more than that page. */
const MOST = 120_000;

interface Shot {
  name: string;
  path: string | ((ids: Story) => string);
  /** What is there when the page is. */
  ready: string;
  /** What is done before the picture. */
  act?: (page: Page) => Promise<unknown>;
  also?: ('dark' | 'phone')[];
}

const key = (name: string, then: string) => async (page: Page) => {
  await page.keyboard.press(name);
  await expect(page.locator(then).first()).toBeVisible();
};

const SHOTS: Shot[] = [
  { name: 'home', path: '/', ready: 'main article', also: ['dark', 'phone'] },
  { name: 'palette', path: '/', ready: 'main article', act: key('Control+k', 'dialog [role=option]'), also: ['phone'] },
  { name: 'keys', path: '/w/ada/f/', ready: 'main [role=row]', act: key('?', 'dialog kbd') },
  { name: 'files', path: '/w/ada/f/', ready: 'main [role=row]', also: ['dark', 'phone'] },
  { name: 'markdown', path: '/w/ada/f/README.md', ready: 'main table td', also: ['phone'] },
  { name: 'csv', path: '/w/dan/f/data/sales.csv', ready: 'main td, main [role=cell]' },
  { name: 'json', path: '/w/bob/f/config/app.json', ready: 'main :text("currency")' },
  { name: 'image', path: '/w/ada/f/docs/logo.png', ready: 'main img' },
  { name: 'edit', path: '/w/ada/f/src/cart/cart.ts?view=edit', ready: '.cm-content' },
  { name: 'blame', path: '/w/ada/f/src/cart/cart.ts?view=blame', ready: 'main [role=table], main table' },
  { name: 'changes', path: '/w/ada/changes', ready: 'main [aria-label^="Difference"], main section', also: ['dark', 'phone'] },
  { name: 'complete', path: '/w/dan/f/?do=complete', ready: 'dialog[open] li' },
  { name: 'time', path: '/w/ada/time', ready: 'main [role=row]', also: ['dark', 'phone'] },
  { name: 'use', path: '/w/ada/use', ready: 'main h2' },
  { name: 'disk', path: '/w/ada/disk', ready: 'main svg' },
  { name: 'projects', path: '/p', ready: 'main li' },
  { name: 'graph', path: '/p/greenleaf', ready: 'main li', also: ['dark', 'phone'] },
  { name: 'pull', path: '/p/greenleaf?do=pull', ready: 'dialog[open] li', also: ['dark', 'phone'] },
  { name: 'push', path: '/p/greenleaf?do=push', ready: 'dialog[open] form p.mono' },
  { name: 'project-files', path: '/p/greenleaf/files/', ready: 'main [role=row]' },
  { name: 'merges', path: '/p/greenleaf/merges', ready: 'main li' },
  { name: 'merge', path: ({ merge }) => `/p/greenleaf/merges/${merge}`, ready: 'main li' },
  { name: 'policy', path: '/p/greenleaf/policy', ready: 'main li' },
  { name: 'reviews', path: '/reviews', ready: 'main li', also: ['phone'] },
  { name: 'review', path: ({ lines }) => `/reviews/${lines}`, ready: '.cm-content', also: ['dark', 'phone'] },
  { name: 'review-json', path: ({ json }) => `/reviews/${json}`, ready: '.cm-content' },
  { name: 'review-protected', path: ({ guarded }) => `/reviews/${guarded}`, ready: 'main h1' },
  { name: 'agents', path: '/agents', ready: 'main li', also: ['dark', 'phone'] },
  { name: 'new-agent', path: '/agents?do=add', ready: 'dialog[open]' },
  { name: 'tokens', path: '/settings/tokens', ready: 'main li' },
  { name: 'new-token', path: '/settings/tokens?do=issue', ready: 'dialog[open]' },
  { name: 'quotas', path: '/settings/quotas', ready: 'main li' },
  { name: 'mcp', path: '/settings/mcp', ready: 'main pre' },
  { name: 'server', path: '/settings/server', ready: 'main dl' },
  { name: 'preferences', path: '/settings/preferences', ready: 'main select' },
  { name: 'sign-in', path: '/', ready: 'input' },
  { name: 'not-found', path: '/nowhere', ready: 'main a' },
];

const story = JSON.parse(process.env.OFFSHOOT_STORY ?? 'null') as Story;
mkdirSync(DIR, { recursive: true });

async function open(browser: Browser, shot: Shot, language: 'en' | 'zh', kind: 'light' | 'dark' | 'phone', faults: string[]): Promise<Page> {
  const viewport = kind === 'phone' ? { width: 390, height: 844 } : { width: 1280, height: 800 };
  const signedIn = shot.name === 'sign-in' ? { cookies: [], origins: [] } : 'test-results/signed-in.json';
  const page = await browser.newPage({ viewport, storageState: signedIn, locale: language === 'zh' ? 'zh-CN' : 'en-GB', timezoneId: 'Europe/Berlin', reducedMotion: 'reduce' });
  watch(page, faults);
  await look(page, kind === 'dark' ? 'dark' : 'light', language);
  await page.clock.setFixedTime(story.marks.at(-1)!.real);
  await page.route(/\/api\/v1\/(?!events)/, async (route) => {
    const answer = await route.fetch();
    if (!answer.headers()['content-type']?.includes('json')) return route.fulfill({ response: answer });
    return route.fulfill({ response: answer, body: shifted(story, await answer.text()) });
  });
  return page;
}

for (const shot of SHOTS) {
  const kinds = [['en', 'light'], ['zh', 'light'], ...(shot.also ?? []).map((kind) => ['en', kind])] as ['en' | 'zh', 'light' | 'dark' | 'phone'][];
  for (const [language, kind] of kinds) {
    const name = `${shot.name}.${kind === 'light' ? language : kind}`;
    test(name, async ({ browser, faults }) => {
      const page = await open(browser, shot, language, kind, faults);
      await page.goto(at(typeof shot.path === 'string' ? shot.path : shot.path(story)));
      await expect(page.locator(shot.ready).first()).toBeVisible();
      // The event stream never ends, so the network is never idle: what counts is that nothing loads.
      await expect(page.locator('[aria-busy=true]')).toHaveCount(0);
      await shot.act?.(page);
      // Twice the same is still.
      let last: Buffer = Buffer.alloc(0);
      await expect.poll(async () => {
        const before = last;
        last = await page.screenshot({ caret: 'hide', animations: 'disabled' });
        return last.equals(before);
      }, { intervals: [300] }).toBe(true);
      const blank = await browser.newPage();
      const picture = await smaller(blank, last);
      writeFileSync(`${DIR}/${name}.png`, picture);
      expect(picture.length, `bytes of ${name}`).toBeLessThan(MOST);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(page.viewportSize()!.width);
      await blank.close();
      await page.close();
    });
  }
}
