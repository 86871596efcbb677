// Deciding: on to the next at once, the answer follows, and with it the way back.
import { links } from '~/app/links';
import { go } from '~/app/router.svelte';
import { putBack, type Resolved, type ReviewContent, type ReviewFilter } from '~/api/reviews';
import { decisions } from '~/state/queue.svelte';
import { forget, type OpenReview } from '~/state/review.svelte';
import { t } from '~/text/t.svelte';
import { toasts } from '~/ui/toasts.svelte';
import { agentOf } from './words';

export async function decide(open: OpenReview, filter: ReviewFilter): Promise<void> {
  const { content, request, id } = open;
  if (!content || !request || decisions.taken.has(id)) return;
  const { path } = content.review;
  const sent = decisions.send(id, request);
  // Whoever came by a link and was quick: without the list nobody knows what is next.
  if (!open.queue.reviews) await open.queue.load();
  const next = open.queue.following(id);
  go(next ? links.review(next.id, filter) : links.reviews(filter));
  const answer = await sent;
  if (!answer.ok) {
    return void toasts.fail(t('review.failed', { path }), answer.problem, { title: t('review.look'), run: () => go(links.review(id, filter)) });
  }
  forget(id);
  const { review } = answer.data;
  if (review.state === 'decided') {
    return void toasts.say(t('review.resolvedWaits', { path }), { title: t('review.change'), run: () => go(links.review(id, filter)) });
  }
  toasts.say(t('review.resolved', { path }), wayBack(content, answer.data));
}

/** A decision is final for the server; what the project had can be put back as a new snapshot. */
function wayBack(content: ReviewContent, { review, snapshot }: Resolved) {
  const { ours } = content;
  if (!snapshot || review.lands_in !== 'project' || typeof ours?.content !== 'string' || review.decision?.choice === 'ours') return undefined;
  const bytes = ours.encoding === 'base64' ? Uint8Array.from(atob(ours.content), (letter) => letter.charCodeAt(0)) : ours.content;
  const { project, path } = review;
  const run = async () => {
    const answer = await putBack(project, path, bytes, snapshot);
    if (answer.ok) toasts.say(t('review.isBack', { path, project, who: agentOf(review) }));
    else toasts.fail(t('review.putBackFailed', { path }), answer.problem);
  };
  return { title: t('review.putBack'), run: () => void run() };
}
