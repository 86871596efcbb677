// Sizes as people type them.

const UNITS: Record<string, number> = { '': 1, b: 1, k: 1e3, kb: 1e3, m: 1e6, mb: 1e6, g: 1e9, gb: 1e9, t: 1e12, tb: 1e12, kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30, tib: 2 ** 40 };

/** Bytes of `500 MB` or `2g`; null for what is no size. */
export function parseSize(text: string): number | null {
  const [, number, unit] = /^\s*(\d+(?:[.,]\d+)?)\s*([a-z]*)\s*$/i.exec(text) ?? [];
  const factor = UNITS[unit?.toLowerCase() ?? ''];
  if (number === undefined || factor === undefined) return null;
  const size = Math.round(Number(number.replace(',', '.')) * factor);
  return Number.isSafeInteger(size) ? size : null;
}
