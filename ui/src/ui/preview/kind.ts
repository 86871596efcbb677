// How a file is shown, by its type and name.

export type Kind = 'image' | 'markdown' | 'json' | 'csv' | 'html' | 'pdf' | 'text';

const ENDINGS: Record<string, Kind> = {
  md: 'markdown', markdown: 'markdown', json: 'json', csv: 'csv', tsv: 'csv', html: 'html', htm: 'html', pdf: 'pdf',
  png: 'image', jpg: 'image', jpeg: 'image', gif: 'image', webp: 'image', avif: 'image', svg: 'image', ico: 'image', bmp: 'image',
};
const IMAGE_TYPES: Record<string, string> = {
  png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp', avif: 'image/avif',
  svg: 'image/svg+xml', ico: 'image/x-icon', bmp: 'image/bmp',
};

export const endingOf = (path: string) => /\.([A-Za-z0-9]+)$/.exec(path)?.[1]?.toLowerCase() ?? '';
export const kindOf = (path: string): Kind => ENDINGS[endingOf(path)] ?? 'text';
/** The type to show an image as. Never what the server or an agent says it is: only these are images. */
export const imageType = (path: string) => IMAGE_TYPES[endingOf(path)] ?? 'image/png';
/** Kinds whose text can be looked at as well. */
export const hasSource = (path: string) => kindOf(path) !== 'text' && kindOf(path) !== 'pdf' && (kindOf(path) !== 'image' || endingOf(path) === 'svg');
