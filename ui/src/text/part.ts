// What the server calls a part of a file, and a way of merging, in the language in force.
import { t, words, type Key } from './t.svelte';

/** `lines 3-7` in the language in force; pointers into JSON are names of their own. */
export function partOf(part: string | null | undefined): string {
  if (!part) return t('review.whole');
  const [, word, first = '', last = ''] = /^(line|lines|after line) (\d+)(?:-(\d+))?$/.exec(part) ?? [];
  if (word === 'line') return t('review.line', { line: first });
  if (word === 'lines') return t('review.lines', { first, last });
  return word ? t('review.afterLine', { line: first }) : part;
}

/** Of several parts, as the server puts them into one line. */
export const partsOf = (parts: string) => parts.split(', ').map(partOf).join(', ');

/** A way that a newer server has is shown as it says it. */
export const methodOf = (method: string) => (`method.${method}` in words.table ? t(`method.${method}` as Key) : method);
