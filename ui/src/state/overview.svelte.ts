// Projects, forks, reviews, merges and plain workspaces: what Home, the palette and headers show.
import type { Problem } from '~/api/errors';
import { merges, openReviews, overview, type Merge, type Overview as Answer, type Review } from '~/api/projects';
import { listWorkspaces, type ForkOverview, type Workspace } from '~/api/workspaces';
import type { Change } from '~/live/events';
import { live } from '~/live/live.svelte';
import { throttled } from './resource.svelte';

/** Merges of how many projects are shown as landed, the last changed first. */
const PROJECTS = 8;
const LANDED = 6;
/** An overview asks each fork what changed; more often than this nobody sees. */
const GAP = 2000;
const FILES = new Set(['create', 'write', 'delete', 'move', 'mkdir', 'mode']);

class OverviewState {
  overview = $state.raw<Answer | null>(null);
  reviews = $state.raw<Review[]>([]);
  workspaces = $state.raw<Workspace[]>([]);
  landed = $state.raw<Merge[]>([]);
  problem = $state.raw<Problem | null>(null);
  /** All of it is there: nothing is called empty before. */
  loaded = $state(false);
  #isStale: 'forks' | 'all' | null = null;
  #users = 0;
  #stop: (() => void) | null = null;

  projects = $derived(this.overview?.projects ?? []);
  forks = $derived(this.overview?.forks ?? []);
  /** Workspaces that belong to no project. */
  plain = $derived.by(() => {
    const forks = new Set(this.forks.map((fork) => fork.id));
    return this.workspaces.filter((workspace) => !forks.has(workspace.id));
  });

  fork(id: string): ForkOverview | undefined {
    return this.forks.find((fork) => fork.id === id);
  }

  /** Follows for as long as somebody looks; the returned function ends it. */
  follow(): () => void {
    if (this.#users++ === 0) {
      this.#stop = live.on({ changes: (changes) => this.#apply(changes), reset: () => this.load() });
      void this.load();
    }
    return () => {
      if (--this.#users === 0) this.#stop?.();
    };
  }

  /** Everything. */
  load = async (): Promise<void> => {
    await live.ready;
    // One after the other: what the view itself asks for shall not wait for a connection.
    const all = await overview();
    if (!all.ok) return void (this.problem = all.problem);
    this.problem = null;
    this.overview = all.data;
    const [reviews, workspaces] = await Promise.all([openReviews(), listWorkspaces()]);
    if (reviews.ok) this.reviews = reviews.data.reviews;
    if (workspaces.ok) this.workspaces = workspaces.data.workspaces;
    this.loaded = true;
    await this.#loadLanded(all.data);
  };

  async #loadLanded(all: Answer): Promise<void> {
    const recent = all.projects.toSorted((a, b) => b.changed_at.localeCompare(a.changed_at)).slice(0, PROJECTS);
    const answers = await Promise.all(recent.map((project) => merges(project.name, LANDED)));
    const found = answers.flatMap((answer) => (answer.ok ? answer.data.merges : []));
    this.landed = found.toSorted((a, b) => b.created_at.localeCompare(a.created_at));
  }

  #loadForks = async (): Promise<void> => {
    const all = await overview();
    if (all.ok) this.overview = all.data;
  };

  #again = throttled(() => {
    const load = this.#isStale === 'all' ? this.load : this.#loadForks;
    this.#isStale = null;
    void load();
  }, GAP);

  /** Nobody looks at a hidden tab; it reads once when it is shown again. */
  #later(): void {
    if (!document.hidden) return this.#again();
    document.addEventListener('visibilitychange', () => this.#isStale && this.#again(), { once: true });
  }

  /** What a fork did last shows at once; counts follow with the next read. */
  #apply(changes: Change[]): void {
    const last = new Map<string, Change>();
    for (const change of changes) if (change.workspace && FILES.has(change.op)) last.set(change.workspace, change);
    if (this.overview && last.size) {
      const forks = this.overview.forks.map((fork) => {
        const change = last.get(fork.id);
        return change ? { ...fork, last_operation: change, changed_at: change.at } : fork;
      });
      this.overview = { ...this.overview, forks };
    }
    // What was written changes counts alone; merges, reviews and workspaces change the rest.
    this.#isStale = this.#isStale === 'all' || changes.some((change) => !FILES.has(change.op)) ? 'all' : 'forks';
    this.#later();
  }
}

export const overviewState = new OverviewState();
