// One file that is looked at or edited: its bytes, its tag, and a draft that survives a reload.
import type { Problem } from '~/api/errors';
import { read, write, type Content } from '~/api/files';
import { whoOf, type Change } from '~/live/events';
import { live } from '~/live/live.svelte';
import { Resource } from './resource.svelte';

/** More than this is not shown at once. */
export const MOST = 2_000_000;
const DRAFT = 'offshoot.draft';

/** The text of bytes, or null if they are none. */
export function textOf(bytes: Uint8Array): string | null {
  if (bytes.subarray(0, 8000).includes(0)) return null;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

export interface Conflict {
  problem: Problem;
  /** Who wrote meanwhile, if an event told it. */
  who: string | null;
  version: number | null;
}

interface Draft {
  text: string;
  /** What it began with, so that it can be merged with what others did since. */
  tag: string;
  base: string;
}

/** A draft as it was kept; what is none, such as that of another version of this page, is let go. */
function draftOf(kept: string | null): Draft | null {
  try {
    const draft = JSON.parse(kept ?? 'null') as Partial<Draft> | null;
    const { text, tag, base } = draft ?? {};
    return typeof text === 'string' && typeof tag === 'string' && typeof base === 'string' ? { text, tag, base } : null;
  } catch {
    return null;
  }
}

export class OpenFile {
  content: Resource<Content>;
  /** What was typed and not saved yet, and the tag that it began with. */
  draft = $state.raw<Draft | null>(null);
  conflict = $state.raw<Conflict | null>(null);
  saving = $state(false);
  gone = $state(false);
  /** The last change by somebody else while there is a draft. */
  newer = $state.raw<Change | null>(null);
  #keeping: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly workspace: string, readonly path: string) {
    this.content = new Resource((signal) => read(workspace, path, MOST, signal));
    this.draft = draftOf(localStorage.getItem(this.#place));
  }

  get #place(): string {
    return `${DRAFT}:${this.workspace}:${this.path}`;
  }

  text = $derived.by(() => {
    const content = this.content.data;
    return content ? textOf(content.bytes) : null;
  });
  isWhole = $derived.by(() => {
    const content = this.content.data;
    return content !== null && content.bytes.length === content.size;
  });

  follow(): () => void {
    void this.content.load();
    return live.on({ changes: (changes) => this.#apply(changes), reset: () => void this.content.load() });
  }

  #apply(changes: Change[]): void {
    const mine = changes.filter((change) => change.workspace === this.workspace);
    const last = mine.findLast((change) => change.path === this.path || (change.op === 'move' && change.from === this.path));
    const all = mine.some((change) => change.op === 'restore' || change.op === 'workspace_update');
    if (last && (last.op === 'delete' || last.from === this.path)) return void (this.gone = true);
    if (last) this.gone = false;
    // Our own save comes back as an event, too.
    if (last && this.content.data?.tag === `"${last.after}"`) return;
    if (last && this.draft) this.newer = last;
    if (last || all) void this.content.load();
  }

  type(text: string): void {
    const { tag, base } = this.draft ?? { tag: this.content.data?.tag ?? '', base: this.text ?? '' };
    this.draft = { text, tag, base };
    clearTimeout(this.#keeping);
    this.#keeping = setTimeout(() => this.draft && localStorage.setItem(this.#place, JSON.stringify(this.draft)), 300);
  }

  /** Drops what was typed; the returned function brings it back. */
  discard(): () => void {
    const kept = this.draft;
    clearTimeout(this.#keeping);
    localStorage.removeItem(this.#place);
    this.draft = this.conflict = this.newer = null;
    return () => {
      this.draft = kept;
      if (kept) this.type(kept.text);
    };
  }

  /** Saves unless somebody else has; `over` saves whatever is there. */
  async save(over = false): Promise<Problem | null> {
    if (!this.draft || this.saving) return null;
    this.saving = true;
    const { text, tag } = this.draft;
    const answer = await write(this.workspace, this.path, text, over ? undefined : { match: tag });
    this.saving = false;
    if (!answer.ok) {
      if (answer.problem.code !== 'precondition_failed') return answer.problem;
      this.conflict = { problem: answer.problem, who: this.newer && whoOf(this.newer), version: this.newer?.version ?? null };
      await this.content.load();
      return null;
    }
    this.discard();
    await this.content.load();
    return null;
  }

  /** Goes on from what is there now, with other text. */
  rebase(text: string): void {
    this.draft = this.conflict = this.newer = null;
    this.type(text);
  }
}
