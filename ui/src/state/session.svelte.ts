// Who is signed in, if anybody.
import { me as askMe, signIn as askSignIn, signOut as askSignOut, type Me } from '~/api/me';
import type { Problem } from '~/api/errors';
import { onSignedOut } from '~/api/session';
import { live } from '~/live/live.svelte';

class Session {
  state = $state<'unknown' | 'in' | 'out'>('unknown');
  me = $state.raw<Me | null>(null);
  problem = $state.raw<Problem | null>(null);

  /** Whether all there is is in reach: the owner, who came by the printed link, and admins. */
  seesAll = $derived(['admin', 'user'].includes(this.me?.kind ?? ''));

  async start(): Promise<void> {
    onSignedOut(() => this.#lost());
    await this.check();
  }

  async check(): Promise<boolean> {
    const answer = await askMe();
    if (answer.ok) {
      this.me = answer.data;
      this.problem = null;
      this.state = 'in';
      live.start();
      return true;
    }
    this.problem = answer.problem;
    if (answer.problem.status === 401) this.#lost();
    return false;
  }

  async signIn(token: string): Promise<Problem | null> {
    const problem = await askSignIn(token);
    if (problem) return problem;
    return (await this.check()) ? null : this.problem;
  }

  async signOut(): Promise<void> {
    await askSignOut();
    this.#lost();
  }

  #lost(): void {
    this.state = 'out';
    this.me = null;
    live.stop();
  }
}

export const session = new Session();
