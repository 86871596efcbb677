// A moment of a workspace: now, a snapshot, or a version (`v42`), as addresses write them.
import type { Moment } from '~/api/files';

/** As many letters of an id as anybody reads; the server takes the beginning of one. */
export const short = (id: string) => id.slice(0, 12);

export const versionOf = (point: string | undefined) => (/^v\d+$/.test(point ?? '') ? Number(point!.slice(1)) : null);

/** `undefined` is now. */
export function momentOf(point: string | undefined): Moment {
  const version = versionOf(point);
  if (version !== null) return { version };
  return point ? { at: point } : {};
}

export const isAt = (point: string | undefined, id: string) => !!point && id.startsWith(point);
