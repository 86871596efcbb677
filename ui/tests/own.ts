// A server of a test's own, to be killed and started again on the same data and port.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export class Own {
  readonly data = join(mkdtempSync(join(tmpdir(), 'offshoot-ui-own-')), 'data');
  url = '';
  #server: ChildProcess | null = null;

  /** Starts it where it was before, or anywhere at first, and gives the link that it prints. */
  async start(): Promise<URL> {
    const listen = this.url ? new URL(this.url).host : '127.0.0.1:0';
    const server = spawn(process.env.OFFSHOOT_BIN!, ['--data', this.data, 'serve', '--listen', listen], { stdio: ['ignore', 'pipe', 'ignore'] });
    this.#server = server;
    const link = await new Promise<URL>((resolve, reject) => {
      let text = '';
      server.stdout!.on('data', (piece) => {
        text += String(piece);
        const found = /http:\/\/\S+\/sign-in\?code=\S+/.exec(text)?.[0];
        if (found) resolve(new URL(found));
      });
      server.once('exit', () => reject(new Error('the server ended before it printed its link')));
    });
    this.url = link.origin;
    return link;
  }

  async stop(signal: NodeJS.Signals): Promise<void> {
    const server = this.#server;
    this.#server = null;
    if (!server || server.exitCode !== null) return;
    const ended = new Promise((resolve) => server.once('exit', resolve));
    server.kill(signal);
    await ended;
  }

  command(args: string[], input?: string): string {
    return execFileSync(process.env.OFFSHOOT_BIN!, ['--quiet', '--data', this.data, ...args], { input, encoding: 'utf8', stdio: ['pipe', 'pipe', 'ignore'] }).trim();
  }

  /** Like `command`, where conflicts (exit code 3) are what is wanted. */
  tolerant(args: string[]): void {
    try { this.command(args); } catch (error) { if ((error as { status?: number }).status !== 3) throw error; }
  }

  /** Ends it and takes its data away. One that was killed may hold its lock for a moment. */
  async remove(): Promise<void> {
    await this.stop('SIGKILL');
    for (let tries = 20; ; tries -= 1) {
      try { return void this.command(['data', 'remove', '--yes']); } catch (error) {
        if (tries === 0) throw error;
        await new Promise((resolve) => setTimeout(resolve, 250));
      }
    }
  }
}
