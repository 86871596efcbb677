// The conventions of README.md that a program can check.
import { readFileSync, readdirSync } from 'node:fs';

const LINES = 250;
const faults = [];
for (const name of readdirSync('src', { recursive: true })) {
  const file = name.replaceAll('\\', '/');
  if (!/\.(ts|svelte|css)$/.test(file) || file === 'api/schema.d.ts') continue;
  const text = readFileSync(`src/${file}`, 'utf8');
  const lines = text.split('\n').length - 1;
  const wrong = (what) => faults.push(`src/${file}: ${what}`);
  if (lines > LINES) wrong(`${lines} lines, at most ${LINES}`);
  if (/\{@html/.test(text)) wrong('{@html}');
  if (file.endsWith('.svelte') && /<[a-z][^>]*\sstyle="/i.test(text)) wrong('style="…" breaks the CSP; use a class or style:name={…}');
  if (/\bfetch\(|XMLHttpRequest|EventSource\(/.test(text) && !file.startsWith('api/')) wrong('fetch outside api/');
  const view = file.match(/^views\/([^/]+)\//)?.[1];
  for (const [, from] of text.matchAll(/from '~\/views\/([^/']+)/g)) {
    if (view && from !== view) wrong(`a view imports the view ${from}`);
    if (!view && !file.startsWith('app/')) wrong(`imports the view ${from}`);
  }
  if (/^ui\//.test(file) && /from '~\/(views|api|state|live)\/(?!errors|paths)/.test(text.replace(/import type[^;]*;/g, ''))) wrong('ui/ knows neither views, api, state nor live');
}
for (const fault of faults) console.error(fault);
if (faults.length) process.exit(1);
