// The reviews that wait, the next ones read ahead, and decisions on their way to the server.
import { PAGE, reviewContent, resolveReview, reviewsPage, type ResolveRequest, type Resolved, type Review, type ReviewContent, type ReviewFilter } from '~/api/reviews';
import type { Problem, Result } from '~/api/errors';
import type { Change } from '~/live/events';
import { live } from '~/live/live.svelte';
import { throttled } from './resource.svelte';

const GAP = 700;
const AHEAD = 2;
const CONCERN = new Set(['review_open', 'review_resolve', 'review_propose', 'merge', 'merge_undo', 'update', 'project_delete', 'workspace_delete']);

class Decisions {
  /** Ids of what was decided here and is not confirmed, or is and still listed. */
  taken = $state.raw<ReadonlySet<string>>(new Set());
  /** How many are on their way. */
  pending = $state(0);
  #line: Promise<unknown> = Promise.resolve();

  /** One after the other: merges into a project do not run beside each other either. */
  send(id: string, request: ResolveRequest): Promise<Result<Resolved>> {
    this.taken = new Set(this.taken).add(id);
    this.pending += 1;
    const answer = this.#line.then(() => resolveReview(id, request));
    this.#line = answer.then((result) => {
      this.pending -= 1;
      // What lands with the last of its merge is listed on, as decided.
      if (!result.ok || result.data.review.state !== 'resolved') this.release(id);
    });
    return answer;
  }

  release(id: string): void {
    const taken = new Set(this.taken);
    taken.delete(id);
    this.taken = taken;
  }
}

export const decisions = new Decisions();

export class Queue {
  #all = $state.raw<Review[] | null>(null);
  problem = $state.raw<Problem | null>(null);
  more = $state(false);
  #ahead = new Map<string, Promise<Result<ReviewContent>>>();
  #round = 0;

  /** By project and workspace, the oldest first. */
  #sorted = $derived(this.#all?.toSorted(compare) ?? null);
  /** Without what was just decided here. */
  reviews = $derived(this.#sorted?.filter((review) => !decisions.taken.has(review.id)) ?? null);
  open = $derived(this.reviews?.filter((review) => review.state === 'open') ?? []);

  constructor(readonly filter: ReviewFilter) {}

  follow(): () => void {
    void this.load();
    return live.on({ changes: (changes) => this.#apply(changes), reset: () => void this.load() });
  }

  /** Reads as many as were shown. */
  load = async (): Promise<void> => {
    const round = ++this.#round;
    await live.ready;
    const wanted = Math.max(PAGE, this.#all?.length ?? 0);
    const found: Review[] = [];
    let more = true;
    while (more && found.length < wanted) {
      const answer = await reviewsPage(this.filter, found.at(-1)?.id);
      if (round !== this.#round) return;
      if (!answer.ok) return void (this.problem = answer.problem);
      found.push(...answer.data.reviews);
      more = answer.data.reviews.length === PAGE;
    }
    [this.#all, this.more, this.problem] = [found, more, null];
  };

  loadMore = async (): Promise<void> => {
    const answer = await reviewsPage(this.filter, this.#all?.at(-1)?.id);
    if (!answer.ok) return void (this.problem = answer.problem);
    this.#all = [...(this.#all ?? []), ...answer.data.reviews];
    this.more = answer.data.reviews.length === PAGE;
  };

  /** The one after (or before) this, open ones only; null at the end. */
  beside(id: string, step: 1 | -1): Review | null {
    const all = (this.#sorted ?? []).filter((review) => review.id === id || (review.state === 'open' && !decisions.taken.has(review.id)));
    const at = all.findIndex((review) => review.id === id);
    return all[at < 0 ? 0 : at + step] ?? null;
  }

  /** What comes after this one is decided: the next, or the first that is left. */
  following(id: string): Review | null {
    return this.beside(id, 1) ?? this.open.find((review) => review.id !== id) ?? null;
  }

  /** The texts of one, at once if they were read ahead. */
  take(id: string): Promise<Result<ReviewContent>> {
    const known = this.#ahead.get(id);
    this.#ahead.delete(id);
    return known ?? reviewContent(id);
  }

  readAhead(id: string): void {
    let next = this.following(id);
    for (let n = 0; n < AHEAD && next && next.id !== id; n += 1) {
      if (!this.#ahead.has(next.id)) this.#ahead.set(next.id, reviewContent(next.id));
      next = this.following(next.id);
    }
  }

  #again = throttled(() => void this.load(), GAP);

  #apply(changes: Change[]): void {
    const mine = changes.filter((change) => CONCERN.has(change.op));
    if (mine.some((change) => !this.filter.project || change.project === this.filter.project)) this.#again();
  }
}

function compare(a: Review, b: Review): number {
  return a.project.localeCompare(b.project) || a.workspace.localeCompare(b.workspace) || a.opened_at.localeCompare(b.opened_at) || a.id.localeCompare(b.id);
}
