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
