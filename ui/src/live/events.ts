// What the server tells while it happens.
import type { HistoryLine } from '~/api/workspaces';

/** One change: a line of the history, with where it happened. */
export type Change = HistoryLine & { workspace?: string; project?: string };

/** What an agent shows with `show_files`. */
export interface Show {
  workspace: string;
  project?: string;
  paths: string[];
  operator: string;
  message_id?: string | null;
}

/** Who did it: an outside program works on behalf of somebody. */
export const whoOf = (line: { operator: string; claim?: string | null | undefined }) => line.claim ?? line.operator;

export type Message =
  | { kind: 'changes'; changes: Change[]; seq: number }
  | { kind: 'show'; show: Show }
  | { kind: 'reset'; seq: number }
  | { kind: 'state'; online: boolean; seq: number }
  | { kind: 'hello' };

/** Whether this is a message as this version of the page writes it: a tab may be open since the one before. */
export function isMessage(data: unknown): data is Message {
  const message = (data ?? {}) as Partial<Record<string, unknown>>;
  const isSeq = typeof message.seq === 'number';
  const isAll = (list: unknown, type: string) => Array.isArray(list) && list.every((one) => one !== null && typeof one === type);
  if (message.kind === 'changes') return isSeq && isAll(message.changes, 'object');
  if (message.kind === 'state') return isSeq && typeof message.online === 'boolean';
  if (message.kind === 'reset') return isSeq;
  if (message.kind === 'show') return isAll((message.show as Partial<Show> | null)?.paths, 'string');
  return message.kind === 'hello';
}
