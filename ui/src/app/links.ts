// Every address of the UI is made here, so that a route is renamed in one place.

const part = encodeURIComponent;
const parts = (path: string) => path.split('/').map(part).join('/');

export const links = {
  home: () => '/',
  project: (project: string) => `/p/${part(project)}`,
  merge: (project: string, merge: string) => `/p/${part(project)}/merges/${part(merge)}`,
  reviews: () => '/reviews',
  review: (id: string) => `/reviews/${part(id)}`,
  /** A directory ends with a slash, a file does not: the address alone says which. */
  dir: (workspace: string, path = '') => `/w/${part(workspace)}/f/${path ? `${parts(path)}/` : ''}`,
  file: (workspace: string, path: string, view?: string) => `/w/${part(workspace)}/f/${parts(path)}${view ? `?view=${view}` : ''}`,
  workspace: (workspace: string) => `/w/${part(workspace)}/f/`,
  changes: (workspace: string, path?: string) => `/w/${part(workspace)}/changes${path ? `#${part(path)}` : ''}`,
  use: (workspace: string) => `/w/${part(workspace)}/use`,
  disk: (workspace: string) => `/w/${part(workspace)}/disk`,
};
