// What the first page loads, gzipped, against its limit; then every other chunk.
import { readFileSync, readdirSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

const LIMIT = 60_000;
const size = (file) => gzipSync(readFileSync(`dist/${file}`), { level: 9 }).length;
const html = readFileSync('dist/index.html', 'utf8');
const entry = [...html.matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)].map((match) => match[1]);
const first = entry.reduce((sum, file) => sum + size(file), size('index.html'));
for (const file of entry) console.log(String(size(file)).padStart(8), file);
console.log(String(first).padStart(8), `first load (limit ${LIMIT})`);
const rest = readdirSync('dist/assets').map((name) => `assets/${name}`).filter((file) => !entry.includes(file));
for (const [bytes, file] of rest.map((file) => [size(file), file]).sort((a, b) => b[0] - a[0])) {
  console.log(String(bytes).padStart(8), file);
}
if (first > LIMIT) process.exit(1);
