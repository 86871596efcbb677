// The comparison of two moments: by the server where it can, of two contents where it cannot.
import { read } from '~/api/files';
import { difference } from '~/api/time';
import { Comparison, orNone, WHOLE, type Ask, type Read } from '~/state/comparison.svelte';
import { textOf } from '~/state/file.svelte';
import { momentOf, versionOf } from './points';

export interface Wanted {
  workspace: string;
  path: string;
  from: string | undefined;
  to: string | undefined;
  /** A completed workspace has a history, but no files to read. */
  isGone: boolean;
}

export function compare({ workspace, path, from, to, isGone }: Wanted): Comparison {
  const side = (point: string | undefined): Read => (of, signal) => orNone(read(workspace, of, WHOLE, signal, momentOf(point)));
  // Where it begins without a snapshot, there was nothing.
  const nothing: Read = () => Promise.resolve({ ok: true, data: null, headers: new Headers() });
  const [left, right] = [from ? side(from) : nothing, side(to)];
  const byServer: Ask = (query, signal) => difference(workspace, { from, to, ...(path && { path }), ...query }, signal);
  const byContent: Ask = async ({ name_only }, signal) => {
    const [a, b] = await Promise.all([left(path, signal), right(path, signal)]);
    if (!a.ok) return a;
    if (!b.ok) return b;
    const [before, after] = [a.data?.tag ?? null, b.data?.tag ?? null];
    const changes = [];
    if (before !== after) {
      const texts = [a.data, b.data].map((one) => (one ? (one.bytes.length < one.size ? null : textOf(one.bytes)) : ''));
      const [was, is] = texts;
      const isText = typeof was === 'string' && typeof is === 'string';
      const lines = isText && !name_only ? (await import('~/ui/preview/merge')).unified(was, is) : null;
      const change = before === null ? 'added' as const : after === null ? 'deleted' as const : 'modified' as const;
      changes.push({ path, change, type: 'file' as const, before, after, binary: !isText, diff: lines?.diff ?? null, added_lines: lines?.added ?? null, removed_lines: lines?.removed ?? null });
    }
    return { ok: true, data: { changes, from: from ?? null, to: to ?? null }, headers: b.headers };
  };
  const hasVersion = versionOf(from) !== null || versionOf(to) !== null;
  const key = [workspace, path, from, to].join('\n');
  return new Comparison(key, hasVersion ? byContent : byServer, isGone ? null : left, isGone ? null : right);
}
