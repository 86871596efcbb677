// Every address of the UI is made here, so that a route is renamed in one place.
import { isWay } from '~/api/paths';

/** No name is `..`; a browser would take it for the way up. */
const part = (text: string) => (isWay(text) ? text.replaceAll('.', '%5Cx2E') : encodeURIComponent(text));
const parts = (path: string) => path.split('/').map(part).join('/');
/** `?a=b` of the values that are there. */
function query(values: Record<string, string | undefined>): string {
  const given = Object.entries(values).filter(([, value]) => value).map(([name, value]) => `${name}=${part(value!)}`);
  return given.length ? `?${given.join('&')}` : '';
}

export const links = {
  home: () => '/',
  project: (project: string) => `/p/${part(project)}`,
  projects: () => '/p',
  /** `at` is a snapshot; without it the newest. */
  snapshot: (project: string, at?: string) => `/p/${part(project)}${query({ at })}`,
  projectDir: (project: string, path = '', at?: string) => `/p/${part(project)}/files/${path ? `${parts(path)}/` : ''}${query({ at })}`,
  projectFile: (project: string, path: string, rest: { at?: string | undefined; view?: string | undefined } = {}) => `/p/${part(project)}/files/${parts(path)}${query(rest)}`,
  merges: (project: string) => `/p/${part(project)}/merges`,
  policy: (project: string) => `/p/${part(project)}/policy`,
  merge: (project: string, merge: string) => `/p/${part(project)}/merges/${part(merge)}`,
  reviews: (filter: { project?: string | undefined; agent?: string | undefined } = {}) => `/reviews${query(filter)}`,
  review: (id: string, filter: { project?: string | undefined; agent?: string | undefined } = {}) => `/reviews/${part(id)}${query(filter)}`,
  agents: () => '/agents',
  settings: (tab = 'tokens') => `/settings/${part(tab)}`,
  /** A directory ends with a slash, a file does not: the address alone says which. */
  dir: (workspace: string, path = '') => `/w/${part(workspace)}/f/${path ? `${parts(path)}/` : ''}`,
  file: (workspace: string, path: string, view?: string) => `/w/${part(workspace)}/f/${parts(path)}${view ? `?view=${view}` : ''}`,
  workspace: (workspace: string) => `/w/${part(workspace)}/f/`,
  changes: (workspace: string, path?: string) => `/w/${part(workspace)}/changes${path ? `#${part(path)}` : ''}`,
  /** Points are `from` and `to`: the beginning of a snapshot's id, or `v42`; without `to` it is now. `list` is the timeline alone, where there is no room for both. */
  time: (workspace: string, points: { path?: string | undefined; from?: string | undefined; to?: string | undefined; list?: string | undefined } = {}) => `/w/${part(workspace)}/time${query(points)}`,
  use: (workspace: string) => `/w/${part(workspace)}/use`,
  disk: (workspace: string) => `/w/${part(workspace)}/disk`,
};
