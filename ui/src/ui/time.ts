// Times and sizes as people say them.

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_536_000], ['month', 2_592_000], ['week', 604_800], ['day', 86_400], ['hour', 3600], ['minute', 60], ['second', 1],
];
const formats = new Map<string, Intl.RelativeTimeFormat>();

/** `3 min. ago`; null for less than 5 s, which is `just now`. */
export function relative(at: string, now: number, language: string): string | null {
  const seconds = Math.round((Date.parse(at) - now) / 1000);
  if (!Number.isFinite(seconds) || Math.abs(seconds) < 5) return null;
  let format = formats.get(language);
  if (!format) formats.set(language, (format = new Intl.RelativeTimeFormat(language, { style: 'narrow', numeric: 'always' })));
  const [unit, size] = STEPS.find(([, size]) => Math.abs(seconds) >= size) ?? ['second', 1];
  return format.format(Math.trunc(seconds / size), unit);
}

export function full(at: string, language: string): string {
  return new Date(at).toLocaleString(language, { dateStyle: 'full', timeStyle: 'medium' });
}

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

export function bytes(size: number): string {
  let unit = 0;
  while (size >= 999.5 && unit < UNITS.length - 1) { size /= 1000; unit += 1; }
  return `${unit && size < 9.95 ? size.toFixed(1) : Math.round(size)} ${UNITS[unit]}`;
}
