// Colours for a language, each loaded when a file of it is first shown.
import type { Extension } from '@codemirror/state';
import { endingOf } from './kind';

type Load = () => Promise<Extension>;
type Mode = Parameters<typeof import('@codemirror/language').StreamLanguage.define>[0];

const old = (load: () => Promise<Mode>): Load => async () => {
  const [{ StreamLanguage }, mode] = await Promise.all([import('@codemirror/language'), load()]);
  return StreamLanguage.define(mode);
};
const javascript = (options: { typescript?: boolean; jsx?: boolean }): Load => async () =>
  (await import('@codemirror/lang-javascript')).javascript(options);

const json: Load = async () => (await import('@codemirror/lang-json')).json();
const markdown: Load = async () => (await import('@codemirror/lang-markdown')).markdown();
const html: Load = async () => (await import('@codemirror/lang-html')).html();
const css: Load = async () => (await import('@codemirror/lang-css')).css();
const rust: Load = async () => (await import('@codemirror/lang-rust')).rust();
const python: Load = async () => (await import('@codemirror/lang-python')).python();
const shell = old(async () => (await import('@codemirror/legacy-modes/mode/shell')).shell);
const toml = old(async () => (await import('@codemirror/legacy-modes/mode/toml')).toml);
const yaml = old(async () => (await import('@codemirror/legacy-modes/mode/yaml')).yaml);
const golang = old(async () => (await import('@codemirror/legacy-modes/mode/go')).go);
const c = old(async () => (await import('@codemirror/legacy-modes/mode/clike')).cpp);
const java = old(async () => (await import('@codemirror/legacy-modes/mode/clike')).java);
const sql = old(async () => (await import('@codemirror/legacy-modes/mode/sql')).standardSQL);
const docker = old(async () => (await import('@codemirror/legacy-modes/mode/dockerfile')).dockerFile);
const ruby = old(async () => (await import('@codemirror/legacy-modes/mode/ruby')).ruby);

const BY_ENDING: Record<string, Load> = {
  json, md: markdown, markdown, html, htm: html, svelte: html, vue: html, xml: html, svg: html, css, scss: css,
  js: javascript({ jsx: true }), mjs: javascript({}), cjs: javascript({}), jsx: javascript({ jsx: true }),
  ts: javascript({ typescript: true }), mts: javascript({ typescript: true }), tsx: javascript({ typescript: true, jsx: true }),
  rs: rust, py: python, sh: shell, bash: shell, zsh: shell, toml, lock: toml, yaml, yml: yaml, go: golang,
  c, h: c, cc: c, cpp: c, hpp: c, java, kt: java, cs: java, sql, rb: ruby, dockerfile: docker,
};

/** Null for what has no colours. */
export function languageOf(path: string): Load | null {
  if (/(^|\/)Dockerfile$/.test(path)) return docker;
  return BY_ENDING[endingOf(path)] ?? null;
}
