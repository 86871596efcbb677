// How well a text fits what was typed: all its letters in order, better at the beginning of words.

/** What fits as a whole, not letter by letter. */
export const WHOLE = 400;

/** 0 if it does not fit; larger is better, `WHOLE` and more if the text holds what was typed. */
export function score(text: string, typed: string): number {
  if (!typed) return 1;
  const hay = text.toLowerCase();
  const whole = hay.indexOf(typed);
  if (whole >= 0) return 1000 - whole - hay.length / 100 + (whole === 0 || /\W/.test(hay[whole - 1] ?? '') ? 500 : 0);
  let at = 0;
  let points = 0;
  for (const letter of typed) {
    const found = hay.indexOf(letter, at);
    if (found < 0) return 0;
    points += found === at ? 3 : found === 0 || /\W/.test(hay[found - 1] ?? '') ? 2 : 0;
    at = found + 1;
  }
  return 1 + points;
}
