// A short word for the type of a file.
const WORDS: Record<string, string> = {
  rs: 'Rust', ts: 'TypeScript', tsx: 'TypeScript', js: 'JavaScript', mjs: 'JavaScript', py: 'Python', go: 'Go', md: 'Markdown',
  json: 'JSON', toml: 'TOML', yaml: 'YAML', yml: 'YAML', html: 'HTML', css: 'CSS', svelte: 'Svelte', sh: 'Shell', csv: 'CSV', pdf: 'PDF', txt: 'Text',
};

export function typeName(name: string, mime: string | null | undefined): string {
  const ending = /\.([A-Za-z0-9]+)$/.exec(name)?.[1]?.toLowerCase() ?? '';
  if (WORDS[ending]) return WORDS[ending];
  const [family, kind] = (mime ?? '').split('/');
  if (family === 'image' || family === 'audio' || family === 'video') return `${ending.toUpperCase()} ${family}`;
  if (ending) return ending.length <= 5 ? ending.toUpperCase() : ending;
  if (kind === 'plain') return 'Text';
  return kind && kind !== 'octet-stream' ? kind.replace(/^x-/, '') : '';
}
