// Plays the story once, on the server that the setup of the tests started.
import { chromium, type FullConfig } from '@playwright/test';
import { LOGO } from './files';
import { play } from './story';

export default async function setup(config: FullConfig): Promise<void> {
  const browser = await chromium.launch(config.projects[0]!.use.launchOptions);
  const page = await browser.newPage({ viewport: { width: 480, height: 240 }, storageState: 'test-results/signed-in.json' });
  await page.setContent(`<body style="margin:0">${LOGO}`);
  process.env.OFFSHOOT_STORY = JSON.stringify(await play(page.request, await page.screenshot()));
  await browser.close();
}
