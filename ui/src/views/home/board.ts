// Pure: which column of the board a fork is in, and what needs a person.
import type { Merge, Review } from '~/api/projects';
import type { ForkOverview } from '~/api/workspaces';

export type Column = 'working' | 'ready' | 'review';

/** A fork that was quiet for so long is not being worked on. */
export const QUIET = 5 * 60_000;

export function columnOf(fork: ForkOverview, now: number): Column {
  if (fork.open_reviews > 0) return 'review';
  const last = Date.parse(fork.last_operation?.at ?? fork.changed_at);
  if (fork.changed === 0 || now - last < QUIET) return 'working';
  return 'ready';
}

/** Paths of a fork that its project or another fork changed as well. */
export function overlaps(fork: ForkOverview): number {
  const paths = new Set([...fork.overlap_with_project, ...fork.overlap.flatMap((other) => other.paths)]);
  const unnamed = (fork.overlap_with_project_more ?? 0) + fork.overlap.reduce((sum, other) => sum + (other.more ?? 0), 0);
  return paths.size + unnamed;
}

export type Need = { kind: 'review'; id: string; review: Review } | { kind: 'overlap'; id: string; fork: ForkOverview; count: number };

/** Reviews first, the oldest of them first; then forks that will meet others. */
export function needs(reviews: Review[], forks: ForkOverview[]): Need[] {
  const waiting = reviews.toSorted((a, b) => a.opened_at.localeCompare(b.opened_at));
  const meeting = forks
    .filter((fork) => fork.open_reviews === 0 && overlaps(fork) > 0)
    .toSorted((a, b) => overlaps(b) - overlaps(a));
  return [
    ...waiting.map((review) => ({ kind: 'review' as const, id: review.id, review })),
    ...meeting.map((fork) => ({ kind: 'overlap' as const, id: fork.id, fork, count: overlaps(fork) })),
  ];
}

export interface Board {
  project: string;
  columns: Record<Column, ForkOverview[]>;
  landed: Merge[];
}

/** One board for each project, those that changed last first. */
export function boards(projects: { name: string; changed_at: string }[], forks: ForkOverview[], landed: Merge[], now: number): Board[] {
  const latest = (project: { name: string; changed_at: string }) =>
    forks.reduce((at, fork) => (fork.project === project.name && fork.changed_at > at ? fork.changed_at : at), project.changed_at);
  return projects
    .toSorted((a, b) => latest(b).localeCompare(latest(a)))
    .map(({ name }) => {
      const columns: Board['columns'] = { working: [], ready: [], review: [] };
      for (const fork of forks) if (fork.project === name) columns[columnOf(fork, now)].push(fork);
      for (const column of Object.values(columns)) column.sort((a, b) => b.changed_at.localeCompare(a.changed_at));
      return { project: name, columns, landed: landed.filter((merge) => merge.project === name) };
    });
}
