// Keys to names such as `Ctrl+K`, `g h`, `F2`, and whether a key belongs to the page or to an input.

const isMac = typeof navigator !== 'undefined' && /Mac|iP(hone|ad)/.test(navigator.userAgent);
/** How long the second key of a pair may take. */
const PAIR = 1200;

/** `Ctrl+K` for the modified, the key itself for the rest. Cmd counts as Ctrl on a Mac. */
export function nameOfKey(event: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey'>): string {
  const key = event.key === ' ' ? 'Space' : event.key.length === 1 && event.ctrlKey ? event.key.toUpperCase() : event.key;
  const modifiers = [];
  if (event.ctrlKey || event.metaKey) modifiers.push('Ctrl');
  if (event.altKey) modifiers.push('Alt');
  if (event.shiftKey && event.key.length > 1) modifiers.push('Shift');
  return [...modifiers, event.metaKey ? key.toUpperCase() : key].join('+');
}

export function shownKey(key: string): string {
  return isMac ? key.replace('Ctrl+', '⌘') : key;
}

/** Whether the focus is where keys mean text. */
export function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  if (!element?.closest) return false;
  return element.isContentEditable || element.closest('input:not([type=checkbox]), textarea, select') !== null;
}

/** Turns single keys into pairs: `g` and then `h` is `g h`, if a pair begins with `g`. */
export class Pairs {
  #first = '';
  #at = 0;

  names(key: string, starts: (key: string) => boolean): string[] {
    const first = Date.now() - this.#at < PAIR ? this.#first : '';
    this.#first = starts(key) ? key : '';
    this.#at = Date.now();
    return first ? [`${first} ${key}`, key] : [key];
  }
}
