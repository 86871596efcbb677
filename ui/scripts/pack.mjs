// Packs the built UI into the one file that the server embeds, or checks that the file is what the
// sources build: `node scripts/pack.mjs FILE [--check]`.
//
// The file: a line with the version of the format, a line with the index as JSON (path, type, offset,
// length), and the files, each compressed by gzip. Licences of the libraries are one of them.
import { gunzipSync, gzipSync } from 'node:zlib';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { extname, join, relative, sep } from 'node:path';

const MAGIC = 'offshoot-ui 1\n';
const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.json': 'application/json',
  '.txt': 'text/plain; charset=utf-8',
  '.wasm': 'application/wasm',
  '.bcmap': 'application/octet-stream',
  '.webmanifest': 'application/manifest+json',
};

const dist = new URL('../dist', import.meta.url).pathname;
const [file, flag] = process.argv.slice(2);

function built() {
  const entries = readdirSync(dist, { recursive: true, withFileTypes: true });
  const paths = entries.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
  const named = paths.map((path) => [relative(dist, path).split(sep).join('/'), readFileSync(path)]);
  return new Map(named.sort(([a], [b]) => (a < b ? -1 : 1)));
}

function pack(files) {
  const index = [];
  const contents = [];
  let offset = 0;
  for (const [path, bytes] of files) {
    const type = TYPES[extname(path)];
    if (!type) throw new Error(`no content type is known for ${path}`);
    const gzip = gzipSync(bytes, { level: 9 });
    index.push([path, type, offset, gzip.length]);
    contents.push(gzip);
    offset += gzip.length;
  }
  return Buffer.concat([Buffer.from(MAGIC + JSON.stringify(index) + '\n'), ...contents]);
}

function unpack(bundle) {
  const text = bundle.subarray(MAGIC.length);
  const end = text.indexOf(10);
  const index = JSON.parse(text.subarray(0, end).toString());
  const contents = text.subarray(end + 1);
  return new Map(index.map(([path, , offset, length]) => [path, gunzipSync(contents.subarray(offset, offset + length))]));
}

const now = built();
if (flag === '--check') {
  const then = unpack(readFileSync(file));
  const names = new Set([...now.keys(), ...then.keys()]);
  const differ = [...names].filter((name) => !now.get(name)?.equals(then.get(name) ?? Buffer.alloc(0)));
  if (differ.length > 0) {
    console.error(`the embedded UI is not what its sources build: ${differ.slice(0, 5).join(', ')}`);
    console.error('build it again with `cargo xtask ui`');
    process.exit(1);
  }
  console.log(`the embedded UI is what its sources build (${now.size} files)`);
} else {
  const bundle = pack(now);
  writeFileSync(file, bundle);
  console.log(`${now.size} files, ${Math.round(bundle.length / 1024)} KiB`);
}
