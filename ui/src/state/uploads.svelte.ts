// Files on their way to a workspace: two at a time, never over another file.
import { ABORTED, type Problem } from '~/api/errors';
import { nameOf, dirOf, join } from '~/api/paths';
import { upload } from '~/api/upload';

const AT_ONCE = 2;
const TRIES = 50;

export interface Upload {
  id: number;
  workspace: string;
  path: string;
  file: File;
  state: 'waits' | 'runs' | 'done' | 'failed' | 'cancelled';
  part: number;
  /** The name it got, if its own was taken. */
  renamed?: string;
  problem?: Problem;
}

/** `a.tar.gz` becomes `a (1).tar.gz`, as the server names uploads. */
export function nextName(name: string, number: number): string {
  const dot = name.replace(/^\.+/, (dots) => '_'.repeat(dots.length)).search(/\.(tar\.\w+|[^.]+)$/);
  return dot > 0 ? `${name.slice(0, dot)} (${number})${name.slice(dot)}` : `${name} (${number})`;
}

class Uploads {
  all = $state.raw<Upload[]>([]);
  #next = 1;
  #cancels = new Map<number, () => void>();

  active = $derived(this.all.filter((one) => one.state === 'waits' || one.state === 'runs').length);

  add(workspace: string, dir: string, files: { file: File; path: string }[]): void {
    const fresh = files.map(({ file, path }) => ({ id: this.#next++, workspace, path: join(dir, path), file, state: 'waits' as const, part: 0 }));
    this.all = [...this.all, ...fresh];
    this.#pump();
  }

  cancel(id: number): void {
    this.#cancels.get(id)?.();
    this.#set(id, { state: 'cancelled' });
    this.#pump();
  }

  clear(): void {
    this.all = this.all.filter((one) => one.state === 'waits' || one.state === 'runs');
  }

  #set(id: number, change: Partial<Upload>): void {
    this.all = this.all.map((one) => (one.id === id ? { ...one, ...change } : one));
  }

  #pump(): void {
    const running = this.all.filter((one) => one.state === 'runs').length;
    for (const one of this.all.filter((one) => one.state === 'waits').slice(0, AT_ONCE - running)) void this.#run(one);
  }

  async #run(one: Upload): Promise<void> {
    this.#set(one.id, { state: 'runs' });
    for (let number = 0; number < TRIES; number += 1) {
      const path = number ? join(dirOf(one.path), nextName(nameOf(one.path), number)) : one.path;
      const transfer = upload(one.workspace, path, one.file, (part) => this.#set(one.id, { part }));
      this.#cancels.set(one.id, transfer.cancel);
      const answer = await transfer.done;
      if (answer.ok) {
        this.#set(one.id, { state: 'done', part: 1, ...(number && { renamed: answer.data.name }) });
        break;
      }
      if (answer.problem.code === ABORTED) break;
      // The name is taken: try the next one.
      if (answer.problem.code === 'precondition_failed') continue;
      this.#set(one.id, { state: 'failed', problem: answer.problem });
      break;
    }
    this.#cancels.delete(one.id);
    this.#pump();
  }
}

export const uploads = new Uploads();
