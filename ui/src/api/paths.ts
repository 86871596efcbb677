// Paths as JSON writes them (`\xNN` for bytes that are no text) and as URLs do (percent-encoded).

/** Whether a part leads to another place: a browser takes `..` for the way up, however it is encoded. */
export const isWay = (part: string) => part === '.' || part === '..';

/** One part of a path, for a URL of the API. No name is `..`, so that one becomes a name that is not there. */
export function encodeSegment(part: string): string {
  if (isWay(part)) return part.replaceAll('.', '%5Cx2E');
  return part
    .split(/(\\x[0-9A-Fa-f]{2})/)
    .map((piece, i) => (i % 2 ? `%${piece.slice(2).toUpperCase()}` : encodeURIComponent(piece)))
    .join('');
}

/** A whole path: each part encoded, the slashes as they are. */
export function encodePath(path: string): string {
  return path.split('/').map(encodeSegment).join('/');
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** The directory of a path; '' is the top. */
export function dirOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

export function join(dir: string, name: string): string {
  return dir ? `${dir}/${name}` : name;
}

/** Every directory on the way to a path, the nearest to the top first, itself last. */
export function ancestors(path: string): string[] {
  const parts = path.split('/').filter(Boolean);
  return parts.map((_, i) => parts.slice(0, i + 1).join('/'));
}
