// Language and theme of this browser.
import { words, type Language } from '~/text/t.svelte';

export type Theme = 'system' | 'light' | 'dark';
const THEME = 'offshoot.theme';
const LANGUAGE = 'offshoot.language';
const dark = window.matchMedia('(prefers-color-scheme: dark)');

/** What was kept, if it is one of these. */
const known = <T extends string>(kept: string | null, all: T[]) => all.find((one) => one === kept);

class Preferences {
  theme = $state<Theme>(known(localStorage.getItem(THEME), ['light', 'dark']) ?? 'system');
  shown = $state<'light' | 'dark'>('light');

  async start(): Promise<void> {
    this.#show();
    dark.addEventListener('change', () => this.#show());
    const kept = known<Language>(localStorage.getItem(LANGUAGE), ['en', 'zh']);
    await words.use(kept ?? (navigator.language.startsWith('zh') ? 'zh' : 'en'));
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    localStorage.setItem(THEME, theme);
    this.#show();
  }

  setLanguage(language: Language): void {
    localStorage.setItem(LANGUAGE, language);
    void words.use(language);
  }

  #show(): void {
    this.shown = this.theme === 'system' ? (dark.matches ? 'dark' : 'light') : this.theme;
    document.documentElement.dataset.theme = this.shown;
  }
}

export const preferences = new Preferences();
