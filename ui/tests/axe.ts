// The check for accessibility that every view goes through.
import AxeBuilder from '@axe-core/playwright';
import type { Page } from '@playwright/test';

/** What is wrong with the page as it stands, serious or worse. */
export async function seriousFaults(page: Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const serious = violations.filter((fault) => fault.impact === 'serious' || fault.impact === 'critical');
  return serious.map((fault) => `${fault.id}: ${fault.nodes.map((node) => node.html.slice(0, 160)).join(' | ')}`);
}

export const withTheme = (page: Page, theme: string) => page.addInitScript((kept) => localStorage.setItem('offshoot.theme', kept), theme);
export const inChinese = (page: Page) => page.addInitScript(() => localStorage.setItem('offshoot.language', 'zh'));
