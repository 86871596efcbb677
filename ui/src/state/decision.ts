// Pure: what a person chose in one review so far, and what that means for the server.
import type { PartChoice, Piece, Region, ResolveRequest, Review, ReviewContent } from '~/api/reviews';

export interface Draft {
  /** By the number of the part. */
  parts: Record<number, PartChoice>;
  /** For what is decided as a whole. */
  whole: PartChoice | null;
  candidate: number | null;
  /** The text as it was edited; it is the whole file. */
  edited: string | null;
}

export const EMPTY: Draft = { parts: {}, whole: null, candidate: null, edited: null };
/** The keys 1 to 4. */
export const CHOICES: PartChoice[] = ['ours', 'theirs', 'base', 'union'];

/** What can be chosen for a file as a whole. Both cannot be joined there. */
export const wholeChoices = (content: ReviewContent): PartChoice[] =>
  content.review.protected && !content.regions.length ? ['ours', 'theirs'] : ['ours', 'theirs', 'base'];

export function decided(content: ReviewContent, draft: Draft): { n: number; all: number } {
  const all = Math.max(1, content.regions.length);
  if (draft.edited !== null || draft.candidate !== null) return { n: all, all };
  if (!content.regions.length) return { n: draft.whole ? 1 : 0, all };
  return { n: content.regions.filter((region) => draft.parts[region.number]).length, all };
}

/** The decision for the server, or null while something is not chosen. */
export function requestOf(content: ReviewContent, draft: Draft): ResolveRequest | null {
  if (draft.edited !== null) return { choice: 'content', content: draft.edited };
  if (draft.candidate !== null) return { choice: 'candidate', candidate: draft.candidate };
  if (!content.regions.length) return draft.whole && { choice: draft.whole };
  const { n, all } = decided(content, draft);
  if (n < all) return null;
  return { parts: named(draft.parts), ...(content.ours?.id && { ours: content.ours.id }) };
}

export const named = (parts: Record<number, PartChoice>): Record<string, PartChoice> =>
  Object.fromEntries(Object.entries(parts).map(([number, choice]) => [String(number), choice]));

/** The index of the next part without a choice after `from`, round to the first; -1 if all have one. */
export function nextUndecided(regions: Region[], parts: Draft['parts'], from: number): number {
  for (let step = 1; step <= regions.length; step += 1) {
    const at = (from + step) % regions.length;
    if (!parts[regions[at]!.number]) return at;
  }
  return -1;
}

export interface Surrounded {
  before: string[];
  after: string[];
  /** The number of the first line of `before`. */
  first: number;
}

/** A few lines around a piece of a text, so that one sees where it stands. */
export function around(text: string | null | undefined, piece: Piece | null | undefined, count = 3): Surrounded {
  if (!text || !piece) return { before: [], after: [], first: 1 };
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  const start = piece.line - 1;
  const end = start + (piece.text === '' ? 0 : piece.lines);
  const first = Math.max(0, start - count);
  return { before: lines.slice(first, start), after: lines.slice(end, end + count), first: first + 1 };
}

/** A text in three: what it begins and ends with like the base, and what differs in between. Where no word is the same nothing is told apart. */
export function differing(text: string, base: string): [string, string, string] {
  let from = 0;
  while (from < text.length && from < base.length && text[from] === base[from]) from += 1;
  let end = 0;
  while (end < text.length - from && end < base.length - from && text[text.length - 1 - end] === base[base.length - 1 - end]) end += 1;
  // Words as a whole: half a word in colour is hard to read.
  while (from > 0 && /\w/.test(text[from - 1]!) && /\w/.test(text[from] ?? ' ')) from -= 1;
  while (end > 0 && /\w/.test(text[text.length - end]!) && /\w/.test(text[text.length - end - 1] ?? ' ')) end -= 1;
  const same = text.slice(0, from) + text.slice(text.length - end);
  if (!/[\p{L}\p{N}]/u.test(same)) return [text, '', ''];
  return [text.slice(0, from), text.slice(from, text.length - end), text.slice(text.length - end)];
}

/** `docs/*.md` for `docs/a.md`: the pattern of files that are alike. */
export function patternOf(path: string): string {
  const [, dir = '', name = ''] = /^(.*\/)?([^/]*)$/.exec(path) ?? [];
  const ending = /.(\.[A-Za-z0-9]+)$/.exec(name)?.[1];
  return ending ? `${dir}*${ending}` : path;
}

const who = (one: Review['ours_by']) => one?.claim ?? one?.operator ?? '';

/** The open reviews that are like this one: same project, pattern, kind and people. It is one of them. */
export function alike(all: Review[], one: Review): Review[] {
  const kin = (other: Review) => other.project === one.project && other.kind === one.kind && other.workspace === one.workspace
    && other.lands_in === one.lands_in && other.protected === one.protected && other.state === 'open'
    && who(other.ours_by) === who(one.ours_by) && patternOf(other.path) === patternOf(one.path);
  return all.filter((other) => other.id === one.id || kin(other));
}

/** The one choice that all parts have, if there is one: what can be decided alike elsewhere. */
export function oneChoice(content: ReviewContent, draft: Draft): PartChoice | null {
  if (draft.edited !== null || draft.candidate !== null) return null;
  if (!content.regions.length) return draft.whole;
  const chosen = new Set(content.regions.map((region) => draft.parts[region.number] ?? null));
  return chosen.size === 1 ? [...chosen][0]! : null;
}

/** Where each part stands in the result, as lines from 1: its text is looked for after the one before it. */
export function placesIn(result: string, regions: Region[], parts: Draft['parts']): (string | null)[] {
  let from = 0;
  return regions.map((region) => {
    const choice = parts[region.number] ?? 'ours';
    const piece = choice === 'union' ? region.ours : region[choice];
    const text = piece?.text ?? '';
    const at = text ? result.indexOf(text, from) : -1;
    if (at < 0) return null;
    const joined = choice === 'union' && region.theirs && result.startsWith(region.theirs.text, at + text.length) ? region.theirs.text.length : 0;
    from = at + text.length + joined;
    const lineOf = (place: number) => result.slice(0, place).split('\n').length;
    const [first, last] = [lineOf(at), lineOf(Math.max(at, from - 1))];
    return first === last ? `L${first}` : `L${first}-${last}`;
  });
}
