// A git repository of a person, for projects that are linked to one.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

export class Repository {
  readonly dir: string;

  constructor(name: string, files: Record<string, string | Buffer>, message: string) {
    this.dir = join(mkdtempSync(join(tmpdir(), 'offshoot-ui-repository-')), name);
    mkdirSync(this.dir);
    this.git('init', '-q', '-b', 'main');
    this.commit(files, message);
  }

  /** Runs git as nobody in particular, with no settings of this machine. */
  git(...args: string[]): string {
    const settings = { GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_SYSTEM: '/dev/null' };
    const who = { GIT_AUTHOR_NAME: 'Ana', GIT_AUTHOR_EMAIL: 'ana@example.com', GIT_COMMITTER_NAME: 'Ana', GIT_COMMITTER_EMAIL: 'ana@example.com' };
    return execFileSync('git', args, { cwd: this.dir, env: { ...process.env, ...settings, ...who }, encoding: 'utf8' }).trim();
  }

  commit(files: Record<string, string | Buffer>, message: string): void {
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(this.dir, path)), { recursive: true });
      writeFileSync(join(this.dir, path), content);
    }
    this.git('add', '-A');
    this.git('commit', '-q', '-m', message);
  }
}
