// The words of the UI. English is the type: a text that Chinese lacks does not compile.
import { plain } from '~/ui/plain';
import { en } from './en';

export type Key = keyof typeof en;
export type Language = 'en' | 'zh';
type Values = Record<string, string | number>;

class Words {
  language = $state<Language>('en');
  table = $state.raw<Record<Key, string>>(en);

  async use(language: Language): Promise<void> {
    this.table = language === 'zh' ? (await import('./zh')).zh : en;
    this.language = language;
    document.documentElement.lang = language === 'zh' ? 'zh-Hans' : 'en';
  }
}

export const words = new Words();

/** `one|many` is chosen by `n`; `{name}` is replaced by the value of that name. */
export function fill(text: string, values: Values = {}): string {
  const bar = text.indexOf('|');
  const form = bar < 0 ? text : values.n === 1 ? text.slice(0, bar) : text.slice(bar + 1);
  return form.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    if (value === undefined) return whole;
    return typeof value === 'number' ? value.toLocaleString(words.language) : plain(value);
  });
}

/** A text in the language in force; read in a template or an effect, it follows the language. */
export function t(key: Key, values?: Values): string {
  return fill(words.table[key], values);
}
