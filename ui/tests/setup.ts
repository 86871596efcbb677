// Starts a server on a throw-away data directory and the preview of the build before it, signs in
// once by the printed link, and ends both afterwards.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

async function firstLink(stdout: NodeJS.ReadableStream): Promise<URL> {
  let text = '';
  for await (const piece of stdout) {
    text += String(piece);
    const link = /http:\/\/\S+\/sign-in\?code=\S+/.exec(text)?.[0];
    if (link) return new URL(link);
  }
  throw new Error('`offshoot serve` ended before it printed its link');
}

export default async function setup(): Promise<() => Promise<void>> {
  const binary = process.env.OFFSHOOT_BIN;
  if (!binary || !existsSync(binary)) throw new Error('OFFSHOOT_BIN must name the `offshoot` binary to test against');
  if (!existsSync('dist/index.html')) throw new Error('`npm run build` first');
  const data = mkdtempSync(join(tmpdir(), 'offshoot-ui-'));
  const server = spawn(binary, ['--data', data, 'serve', '--listen', '127.0.0.1:0'], { stdio: ['ignore', 'pipe', 'ignore'] });
  const link = await firstLink(server.stdout);
  process.env.OFFSHOOT_URL = link.origin;
  process.env.OFFSHOOT_DATA = data;

  const answer = await fetch(link);
  const [name = '', value = ''] = (answer.headers.get('set-cookie') ?? '').split(';')[0]!.split('=');
  const cookie = { name, value, domain: '127.0.0.1', path: '/', expires: -1, httpOnly: true, secure: false, sameSite: 'Strict' };
  mkdirSync('test-results', { recursive: true });
  writeFileSync('test-results/signed-in.json', JSON.stringify({ cookies: [cookie], origins: [] }));

  // The configuration reads OFFSHOOT_URL, so it is loaded after the server runs.
  const { preview } = await import('vite');
  const pages = await preview({ preview: { port: 5190, host: '127.0.0.1' }, logLevel: 'error' });
  process.env.OFFSHOOT_PAGES = pages.resolvedUrls?.local[0]?.replace(/\/$/, '') ?? 'http://127.0.0.1:5190';
  return async () => {
    await pages.close();
    server.kill('SIGTERM');
    await new Promise((resolve) => server.once('exit', resolve));
    // Forks may be mounts, which only the binary takes down.
    execFileSync(binary, ['--data', data, 'data', 'remove', '--yes'], { stdio: 'ignore' });
  };
}
