// Who works: the tree of agents, those that only a fork names, and what each did last.
import { listAgents, type Agent } from '~/api/agents';
import { history, type ForkOverview, type HistoryLine } from '~/api/workspaces';
import { whoOf, type Change } from '~/live/events';
import { live } from '~/live/live.svelte';
import { overviewState } from './overview.svelte';
import { Resource, throttled } from './resource.svelte';

const GAP = 700;
/** Workspaces of no project are not in the overview; so many of them are asked what happened last. */
const ASKED = 24;
/** An agent that did nothing for so long is quiet. */
const QUIET = 5 * 60_000;
const CONCERN = new Set(['agent_spawn', 'agent_end', 'workspace_create', 'workspace_delete', 'merge']);

export type Doing = 'review' | 'working' | 'quiet' | 'idle';
export type Did = Pick<HistoryLine, 'op' | 'path' | 'at' | 'message_id'>;

export interface AgentRow {
  id: string;
  depth: number;
  /** Null for a name that only a fork has. */
  agent: Agent | null;
  workspace: string | null;
  /** The one above it whose workspace it uses. */
  shares: boolean;
  fork: ForkOverview | undefined;
  did: Did | null;
}

/** Parents before children, names in order; who has lost its parent stands at the top. */
export function treeOf(agents: Agent[]): { agent: Agent; depth: number }[] {
  const known = new Set(agents.map((agent) => agent.id));
  const below = new Map<string, Agent[]>();
  for (const agent of agents.toSorted((a, b) => a.id.localeCompare(b.id))) {
    const parent = known.has(agent.parent) && agent.parent !== agent.id ? agent.parent : 'root';
    below.set(parent, [...(below.get(parent) ?? []), agent]);
  }
  const found: { agent: Agent; depth: number }[] = [];
  const walk = (parent: string, depth: number) => {
    for (const agent of below.get(parent) ?? []) {
      found.push({ agent, depth });
      walk(agent.id, depth + 1);
    }
  };
  walk('root', 0);
  return found;
}

export function doing(row: AgentRow, now: number): Doing {
  if (row.fork?.open_reviews && !row.shares) return 'review';
  if (!row.did || row.did.op === 'agent_spawn' || row.did.op === 'workspace_create') return 'idle';
  return now - Date.parse(row.did.at) < QUIET ? 'working' : 'quiet';
}

export class AgentsState {
  agents = new Resource((signal) => listAgents(signal));
  #seen = $state.raw<ReadonlyMap<string, Did>>(new Map());
  #asked = new Set<string>();

  rows = $derived.by((): AgentRow[] | null => {
    const all = this.agents.data?.agents;
    if (!all || !overviewState.loaded) return null;
    const tree = treeOf(all).map(({ agent, depth }) => this.#row(agent.id, depth, agent));
    const inTree = new Set(all.map((agent) => agent.id));
    const named = new Set(overviewState.forks.map((fork) => fork.agent).filter((id): id is string => !!id && !inTree.has(id)));
    return [...tree, ...[...named].sort().map((id) => this.#row(id, 0, null))];
  });

  follow(): () => void {
    void this.agents.load();
    return live.on({ changes: (changes) => this.#apply(changes), reset: () => void this.agents.load() });
  }

  /** What happened last in workspaces that the overview does not tell about. */
  ask = async (): Promise<void> => {
    const wanted = (this.rows ?? []).filter((row) => row.workspace && !row.fork && !row.shares && !this.#asked.has(row.id)).slice(0, ASKED);
    for (const row of wanted) {
      this.#asked.add(row.id);
      const answer = await history(row.workspace!, { limit: 1 });
      const [last] = answer.ok ? answer.data.history : [];
      if (last && !this.#seen.has(row.id)) this.#see([[row.id, last]]);
    }
  };

  #row(id: string, depth: number, agent: Agent | null): AgentRow {
    const fork = overviewState.forks.find((one) => (agent?.workspace_id ? one.id === agent.workspace_id : one.agent === id));
    const workspace = agent?.workspace_id ?? fork?.id ?? null;
    const shares = agent !== null && workspace !== null && !agent.owns_workspace && fork?.agent !== id;
    const did = this.#seen.get(id) ?? (shares ? null : (fork?.last_operation ?? null));
    return { id, depth, agent, workspace, shares, fork, did };
  }

  #see(lines: [string, Did][]): void {
    this.#seen = new Map([...this.#seen, ...lines]);
  }

  #again = throttled(() => void this.agents.load(), GAP);

  #apply(changes: Change[]): void {
    const known = new Map((this.rows ?? []).filter((row) => !row.shares && row.workspace).map((row) => [row.workspace!, row.id]));
    const lines = changes.flatMap((change): [string, Did][] => {
      const who = whoOf(change);
      // Outside programs and people in an agent's workspace work for it, as the server counts it too.
      const id = known.has(change.workspace ?? '') && !(this.rows ?? []).some((row) => row.id === who) ? known.get(change.workspace!)! : who;
      return [[id, change]];
    });
    this.#see(lines);
    if (changes.some((change) => CONCERN.has(change.op))) this.#again();
  }
}
