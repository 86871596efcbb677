// The check for accessibility that every view goes through.
import AxeBuilder from '@axe-core/playwright';
import type { Page } from '@playwright/test';

/** What is wrong with the page as it stands, serious or worse, each as a line. */
export async function seriousFaults(page: Page): Promise<string[]> {
  // What passes is not looked at, so it need not be told: that takes most of the time.
  const { violations } = await new AxeBuilder({ page }).options({ resultTypes: ['violations'] }).analyze();
  const serious = violations.filter((fault) => fault.impact === 'serious' || fault.impact === 'critical');
  return serious.map((fault) => `${fault.id}: ${fault.nodes.map((node) => node.html.slice(0, 160)).join(' | ')}`);
}

/** The page in a theme and a language from its first moment. */
export const look = (page: Page, theme: 'light' | 'dark', language: 'en' | 'zh' = 'en') =>
  page.addInitScript(([one, other]) => { localStorage.setItem('offshoot.theme', one!); localStorage.setItem('offshoot.language', other!); }, [theme, language]);
