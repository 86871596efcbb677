// The unified format as lines with their numbers.

export interface Line {
  kind: 'same' | 'add' | 'del' | 'hunk';
  text: string;
  from?: number;
  to?: number;
}

export function parseDiff(diff: string): Line[] {
  const lines: Line[] = [];
  let from = 0;
  let to = 0;
  const all = diff.split('\n');
  if (all.at(-1) === '') all.pop();
  for (const line of all) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
    if (hunk) {
      from = Number(hunk[1]);
      to = Number(hunk[2]);
      lines.push({ kind: 'hunk', text: line });
    } else if (line.startsWith('+')) lines.push({ kind: 'add', text: line.slice(1), to: to++ });
    else if (line.startsWith('-')) lines.push({ kind: 'del', text: line.slice(1), from: from++ });
    else if (line.startsWith('\\')) lines.push({ kind: 'hunk', text: line.slice(2) });
    else lines.push({ kind: 'same', text: line.slice(1), from: from++, to: to++ });
  }
  return lines;
}
