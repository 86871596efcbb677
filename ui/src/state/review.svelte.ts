// One review that is looked at: its texts, what was chosen, and what would come of it.
import { mergeOf, reviewContent, reviewDiffs, tryParts, type PartChoice, type Review, type ReviewContent, type SideContent } from '~/api/reviews';
import { ABORTED, type Problem } from '~/api/errors';
import type { Schemas } from '~/api/client';
import type { Change } from '~/live/events';
import { live } from '~/live/live.svelte';
import { CHOICES, decided, EMPTY, named, nextUndecided, oneChoice, requestOf, wholeChoices, type Draft } from './decision';
import type { Queue } from './queue.svelte';
import { throttled } from './resource.svelte';

/** What would be there: a text, `null` for nothing, or why it cannot be shown. */
export type Outcome = { text: string | null } | { unshown: 'large' | 'binary' } | { problem: Problem };

const GAP = 700;
/** Drafts outlive a look at the next review and back, as long as the texts are those they are about. */
const drafts = new Map<string, { draft: Draft; of: string }>();

export class OpenReview {
  content = $state.raw<ReviewContent | null>(null);
  problem = $state.raw<Problem | null>(null);
  /** With the differences; asked for only where it is decided as a whole. */
  diffs = $state.raw<Review | null>(null);
  merge = $state.raw<Schemas['Merge'] | null>(null);
  draft = $state.raw<Draft>(EMPTY);
  /** The part that the keys are on. */
  at = $state(0);
  outcome = $state.raw<Outcome | null>(null);
  editing = $state(false);
  /** The texts changed while they were looked at, and choices were taken back for it. */
  changedHere = $state(false);
  #trying: AbortController | null = null;

  constructor(readonly id: string, readonly queue: Queue) {}

  review = $derived(this.content?.review ?? null);
  regions = $derived(this.content?.regions ?? []);
  progress = $derived(this.content ? decided(this.content, this.draft) : { n: 0, all: 0 });
  request = $derived(this.content && requestOf(this.content, this.draft));
  one = $derived(this.content && oneChoice(this.content, this.draft));

  follow(): () => void {
    void this.load(true);
    const stop = live.on({ changes: (changes) => this.#apply(changes), reset: () => void this.load() });
    return () => { stop(); this.#trying?.abort(); };
  }

  /** From what was read ahead, which is looked at again at once. */
  load = async (first = false): Promise<void> => {
    const answer = await (first ? this.queue.take(this.id) : reviewContent(this.id));
    if (!answer.ok) return void (this.problem = answer.problem.code === ABORTED ? null : answer.problem);
    this.#show(answer.data);
    if (!first) return;
    void this.#loadRest(answer.data);
    this.queue.readAhead(this.id);
    const now = await reviewContent(this.id);
    if (now.ok) this.#show(now.data);
  };

  async #loadRest({ review, regions }: ReviewContent): Promise<void> {
    if (!regions.length) { const answer = await reviewDiffs(this.id); if (answer.ok) this.diffs = answer.data; }
    if (review.merge_id) { const answer = await mergeOf(review.merge_id); if (answer.ok) this.merge = answer.data; }
  }

  #show(next: ReviewContent): void {
    this.problem = null;
    const kept = drafts.get(this.id);
    // Other texts may have other parts: what was chosen for the old ones is not chosen for these.
    if (kept && kept.of !== textsOf(next) && Object.keys(kept.draft.parts).length) {
      this.draft = { ...kept.draft, parts: {} };
      drafts.delete(this.id);
      this.changedHere = true;
    } else if (kept) this.draft = kept.draft;
    this.content = next;
    if (this.at >= next.regions.length) this.at = 0;
    void this.#try();
  }

  choose(choice: PartChoice, number?: number): boolean {
    const { content } = this;
    if (!content) return false;
    if (!content.regions.length) {
      if (!wholeChoices(content).includes(choice)) return false;
      this.#set({ ...EMPTY, whole: choice });
      return true;
    }
    const index = number === undefined ? this.at : content.regions.findIndex((region) => region.number === number);
    const region = content.regions[index];
    if (!region?.choices.includes(choice)) return false;
    this.#set({ ...EMPTY, parts: { ...this.draft.parts, [region.number]: choice } });
    const next = nextUndecided(content.regions, this.draft.parts, index);
    this.at = next < 0 ? index : next;
    return true;
  }

  /** The same for every part that takes it. */
  chooseAll(choice: PartChoice): void {
    if (!this.regions.length) return void this.choose(choice);
    const fitting = this.regions.filter((region) => region.choices.includes(choice));
    this.#set({ ...EMPTY, parts: { ...this.draft.parts, ...Object.fromEntries(fitting.map((region) => [region.number, choice])) } });
  }

  chooseCandidate(number: number): void {
    this.#set({ ...this.draft, edited: null, candidate: number });
  }

  edit(text: string): void {
    this.#set({ ...this.draft, candidate: null, edited: text });
  }

  /** Back to what the choices make. */
  discard(): () => void {
    const was = this.draft;
    this.editing = false;
    this.#set({ ...was, edited: null });
    return () => this.#set(was);
  }

  /** To the part before or after. */
  move(step: 1 | -1): void {
    this.at = Math.max(0, Math.min(this.regions.length - 1, this.at + step));
  }

  #set(draft: Draft): void {
    this.draft = draft;
    if (this.content) drafts.set(this.id, { draft, of: textsOf(this.content) });
    void this.#try();
  }

  async #try(): Promise<void> {
    const { content, draft } = this;
    if (!content) return;
    this.#trying?.abort();
    if (draft.edited !== null) return void (this.outcome = { text: draft.edited });
    if (draft.candidate !== null) return void (this.outcome = shown(content.candidates.find((one) => one.number === draft.candidate)));
    if (!content.regions.length) return void (this.outcome = draft.whole && draft.whole !== 'union' ? this.#whole(content, draft.whole) : null);
    const [base, ours, theirs] = [content.base ?? { size: 0, content: '', encoding: 'utf8' as const }, content.ours, content.theirs];
    if (typeof base.content !== 'string' || typeof ours?.content !== 'string' || typeof theirs?.content !== 'string') return void (this.outcome = { unshown: 'large' });
    const abort = (this.#trying = new AbortController());
    const answer = await tryParts(content.review.path, { base: base.content, ours: ours.content, theirs: theirs.content }, named(draft.parts), abort.signal);
    if (abort.signal.aborted) return;
    this.outcome = answer.ok ? { text: answer.data.content } : { problem: answer.problem };
  }

  /** What fits of a protected change is merged; everything else is one side as it is. */
  #whole(content: ReviewContent, choice: 'ours' | 'theirs' | 'base'): Outcome {
    return shown(choice === 'theirs' && content.merged ? content.merged : content[choice]);
  }

  #again = throttled(() => void this.load(), GAP);

  #apply(changes: Change[]): void {
    const review = this.review;
    if (review && changes.some((change) => change.project === review.project && (change.path === review.path || change.op === 'merge' || change.op === 'project_delete'))) this.#again();
  }
}

const textsOf = ({ ours, theirs }: ReviewContent) => `${ours?.id}/${theirs?.id}`;

function shown(side: SideContent | null | undefined): Outcome {
  if (!side) return { text: null };
  if (typeof side.content !== 'string') return { unshown: 'large' };
  return side.encoding === 'utf8' ? { text: side.content } : { unshown: 'binary' };
}

/** The names of a choice's key: `1` for ours. */
export const keyOf = (choice: PartChoice) => String(CHOICES.indexOf(choice) + 1);
/** Candidates have the keys 5 to 9. */
export const FIRST_CANDIDATE = 5;

export const forget = (id: string) => drafts.delete(id);
