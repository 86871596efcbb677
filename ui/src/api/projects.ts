// Projects, their merges, and what is seen across all of them.
import { get, post, type Schemas } from './client';

export type Overview = Schemas['Overview'];
export type ProjectOverview = Schemas['ProjectOverview'];
export type Merge = Schemas['Merge'];
export type Review = Schemas['Review'];
export type FileMatch = Schemas['FileMatch'];

export const overview = (signal?: AbortSignal) => get('/api/v1/overview', { signal });
export const openReviews = (signal?: AbortSignal) =>
  get('/api/v1/reviews', { query: { state: 'open', limit: 200 }, signal });
export const merges = (project: string, limit: number, signal?: AbortSignal) =>
  get('/api/v1/projects/{project}/merges', { path: { project }, query: { limit }, signal });
export const undoMerge = (merge: string) => post('/api/v1/merges/{merge}/undo', { path: { merge } });
export const search = (place: { workspace: string } | { project: string }, name: string, signal?: AbortSignal) =>
  get('/api/v1/search', { query: { ...place, name, limit: 30 }, signal });
