// Short notes about what was done, with the way back. At most three at a time.
import type { Problem } from '~/api/errors';

export interface Toast {
  id: number;
  text: string;
  kind: 'note' | 'bad';
  detail?: string | undefined;
  action?: { title: string; run: () => void } | undefined;
}

const MOST = 3;
const LASTS = 8000;

class Toasts {
  all = $state.raw<Toast[]>([]);
  #next = 1;
  #timers = new Map<number, ReturnType<typeof setTimeout>>();

  say(text: string, action?: Toast['action'], rest: Partial<Toast> = {}): number {
    const id = this.#next++;
    this.all = [...this.all, { id, text, kind: 'note' as const, action, ...rest }].slice(-MOST);
    this.resume(id);
    return id;
  }

  fail(text: string, problem: Problem, action?: Toast['action']): number {
    const detail = [problem.message, problem.hint].filter(Boolean).join('. ');
    return this.say(text, action, { kind: 'bad', detail: `${detail} [${problem.code}]` });
  }

  /** The newest that can be undone. */
  undo(): boolean {
    const last = this.all.findLast((toast) => toast.action && toast.kind === 'note');
    if (!last?.action) return false;
    this.drop(last.id);
    last.action.run();
    return true;
  }

  /** Does not go while somebody points at it. */
  hold(id: number): void {
    clearTimeout(this.#timers.get(id));
  }

  resume(id: number): void {
    this.hold(id);
    this.#timers.set(id, setTimeout(() => this.drop(id), LASTS));
  }

  drop(id: number): void {
    this.hold(id);
    this.#timers.delete(id);
    this.all = this.all.filter((toast) => toast.id !== id);
  }
}

export const toasts = new Toasts();
