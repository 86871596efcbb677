// The stream of events as bytes; `live/` makes sense of them.
import { raw } from './client';

export function openEvents(since: number, signal: AbortSignal) {
  return raw('GET', `/api/v1/events?since=${since}`, { signal, headers: { accept: 'text/event-stream' } });
}
