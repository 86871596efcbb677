// Plays the story once, on the server that the setup of the tests started.
import { chromium, type FullConfig } from '@playwright/test';
import { LOGO } from './files';
import { play } from './story';

export default async function setup(config: FullConfig): Promise<void> {
  const browser = await chromium.launch(config.projects[0]!.use.launchOptions);
  const page = await browser.newPage({ viewport: { width: 480, height: 240 }, storageState: 'test-results/signed-in.json' });
  const signs = await page.evaluate(() => ['项', '\uE9F3'].map((sign) => {
    const canvas = document.createElement('canvas');
    const ink = canvas.getContext('2d')!;
    ink.font = '20px sans-serif';
    ink.fillText(sign, 0, 20);
    return canvas.toDataURL();
  }));
  // Both are the box of a sign that no font has.
  if (signs[0] === signs[1]) throw new Error('pictures in Chinese need a font, such as that of the package fonts-noto-cjk');
  await page.setContent(`<body style="margin:0">${LOGO}`);
  process.env.OFFSHOOT_STORY = JSON.stringify(await play(page.request, await page.screenshot()));
  await browser.close();
}
