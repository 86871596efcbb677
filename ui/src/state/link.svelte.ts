// The repository that a project is linked to, and how far the two are apart.
import { linkOf } from '~/api/project';
import { live } from '~/live/live.svelte';
import { Resource, throttled } from './resource.svelte';

const GAP = 2000;

export class LinkState {
  link = new Resource((signal) => linkOf(this.project, signal));

  constructor(readonly project: string) {}

  /** No event tells of commits in the repository, so it is looked at again when somebody comes back. */
  follow(): () => void {
    const again = throttled(() => void this.link.load(), GAP);
    again();
    window.addEventListener('focus', again);
    const stop = live.on({
      changes: (changes) => changes.some((change) => change.project === this.project && (!change.workspace || change.op === 'merge')) && again(),
      reset: again,
    });
    return () => {
      window.removeEventListener('focus', again);
      this.link.stop();
      stop();
    };
  }
}
