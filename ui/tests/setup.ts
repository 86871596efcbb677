// Starts a server on a throw-away data directory, signs in once by the printed link, and takes all of
// it away afterwards, however the run ends. The pages are those that the binary serves, which is what
// ships; with OFFSHOOT_UI=preview they are those of `npm run build`, in front of the same server.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** How long a server may take to print its link, on a busy machine too. */
const START = 60_000;
/** How long it may take to end; it promises four seconds. */
const END = 20_000;

/** Tests that try what is refused are many, and come from one address. */
const PATIENT = { OFFSHOOT_MAX_BAD_TOKENS: '100000' };

/** A server with everything that tests leave behind: one directory, and mounts in it. */
class Stage {
  readonly dir = mkdtempSync(join(tmpdir(), 'offshoot-ui-'));
  readonly data = join(this.dir, 'data');
  readonly #binary: string;
  readonly #server: ChildProcess;
  readonly #ended: Promise<unknown>;
  #errors = '';

  constructor(binary: string) {
    this.#binary = binary;
    this.#server = spawn(binary, ['--data', this.data, 'serve', '--listen', '127.0.0.1:0'], { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...PATIENT } });
    this.#server.stderr!.on('data', (piece) => (this.#errors = (this.#errors + String(piece)).slice(-4000)));
    this.#ended = new Promise((resolve) => this.#server.once('exit', resolve).once('error', resolve));
    // A run that is ended from outside has no time to wait.
    process.once('exit', this.#drop);
    for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));
  }

  async link(): Promise<URL> {
    let text = '';
    const printed = new Promise<URL>((resolve) => {
      this.#server.stdout!.on('data', (piece) => {
        text += String(piece);
        const link = /http:\/\/\S+\/sign-in\?code=\S+/.exec(text)?.[0];
        if (link) resolve(new URL(link));
      });
    });
    const failed = (why: string) => () => { throw new Error(`\`offshoot serve\` ${why}:\n${this.#errors}`); };
    const late = new Promise((resolve) => setTimeout(resolve, START).unref());
    return Promise.race([printed, this.#ended.then(failed('ended before it printed its link')), late.then(failed('printed no link'))]);
  }

  async end(): Promise<void> {
    this.#server.kill('SIGTERM');
    const patience = setTimeout(() => this.#server.kill('SIGKILL'), END);
    await this.#ended;
    clearTimeout(patience);
    this.#drop();
  }

  #drop = (): void => {
    process.off('exit', this.#drop);
    if (this.#server.exitCode === null) this.#server.kill('SIGKILL');
    // Forks may be mounts, which only the binary takes down. One that was killed a moment ago may
    // still hold its lock.
    const remove = () => execFileSync(this.#binary, ['--data', this.data, 'data', 'remove', '--yes'], { stdio: 'ignore' });
    for (let tries = 20; existsSync(this.data); tries -= 1) {
      try { remove(); } catch (error) {
        if (tries === 0) throw error;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 250);
      }
    }
    rmSync(this.dir, { recursive: true, force: true });
  };
}

/** Puts the pages of `npm run build` in front of the server. */
async function preview(): Promise<{ url: string; close: () => Promise<void> }> {
  if (!existsSync('dist/index.html')) throw new Error('`npm run build` first');
  // The configuration reads OFFSHOOT_URL, so it is loaded after the server runs.
  const vite = await import('vite');
  const pages = await vite.preview({ preview: { port: 0, host: '127.0.0.1' }, logLevel: 'error' });
  return { url: pages.resolvedUrls!.local[0]!.replace(/\/$/, ''), close: () => pages.close() };
}

/** Signs in once, for the pages at these addresses: both halves, as a browser would keep them. */
async function signIn(link: URL, pages: string[]): Promise<void> {
  const answer = await fetch(link);
  const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(answer.headers.get('set-cookie') ?? '') ?? [];
  const half = /'offshoot\.page', '([^']+)'/.exec(await answer.text())?.[1] ?? '';
  // For requests that tests make beside the pages.
  process.env.OFFSHOOT_HALF = half;
  const cookie = { name, value, domain: '127.0.0.1', path: '/', expires: -1, httpOnly: true, secure: false, sameSite: 'Strict' };
  const origins = pages.map((origin) => ({ origin, localStorage: [{ name: 'offshoot.page', value: half }] }));
  mkdirSync('test-results', { recursive: true });
  writeFileSync('test-results/signed-in.json', JSON.stringify({ cookies: [cookie], origins }));
}

export default async function setup(): Promise<() => Promise<void>> {
  const binary = process.env.OFFSHOOT_BIN;
  if (!binary || !existsSync(binary)) throw new Error('OFFSHOOT_BIN must name the `offshoot` binary to test against');
  const stage = new Stage(binary);
  try {
    const link = await stage.link();
    process.env.OFFSHOOT_URL = link.origin;
    process.env.OFFSHOOT_DATA = stage.data;
    // What tests and browsers put into temporary directories goes with the rest.
    process.env.TMPDIR = stage.dir;
    const pages = process.env.OFFSHOOT_UI === 'preview' ? await preview() : null;
    process.env.OFFSHOOT_PAGES = pages?.url ?? link.origin;
    await signIn(link, [...new Set([link.origin, process.env.OFFSHOOT_PAGES])]);
    return async () => {
      await pages?.close();
      await stage.end();
    };
  } catch (error) {
    await stage.end();
    throw error;
  }
}
