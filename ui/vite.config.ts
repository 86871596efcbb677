// The build, the dev server with its proxy, and a preview that answers with the server's headers.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin, type ProxyOptions } from 'vite';

// The server replaces this in index.html with a fresh nonce for every answer.
const NONCE = '__OFFSHOOT_NONCE__';
const SERVER = process.env.OFFSHOOT_URL ?? 'http://127.0.0.1:7420';

/** Svelte, icons of the shell, and all of src/ that is neither a view nor loaded on demand. */
const BASE = (id: string) =>
  /node_modules\/svelte\/|@lucide\/svelte\/dist\/(Icon|default|context|utils)/.test(id) ||
  (/\/src\/(app|api|live|state|text|ui|look)\/|\/src\/main\.ts/.test(id) && !/\/src\/(ui\/preview|text\/zh)\/|app\/(SignIn|Palette|Help)\.svelte|ui\/(Diff|Tree|Table|Split|VirtualList|Dialog|Field|Checkbox|Switch|Select|drop|diff|save)\b|state\/(queue|review|decision|agents|file|uploads|listing|tree|workspace|history|comparison|project|link)\b|api\/(upload|files|time|project|reviews|agents|settings)\b/.test(id));

/** The page as the server answers it: a fresh nonce, its CSP, never stored. */
function answerPage(answer: ServerResponse, status = 200): void {
  const nonce = randomBytes(16).toString('base64');
  answer.writeHead(status, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store', 'content-security-policy': policy(nonce) });
  answer.end(readFileSync('dist/index.html', 'utf8').replaceAll(NONCE, nonce));
}

function policy(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' blob: data:",
    "font-src 'self'",
    "connect-src 'self'",
    "frame-src 'self'",
    "worker-src 'self'",
    "manifest-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    'trusted-types svelte-trusted-html dompurify offshoot-worker',
  ].join('; ');
}

const isPage = (url = '', accept = '') =>
  accept.includes('text/html') && !/^\/(api|sign-in|sign-out|openapi|healthz|metrics|docs|git|mcp|@)/.test(url);

/** Answers every page with index.html as `offshoot serve` does: nonce, CSP, never stored. */
function pages(): Plugin {
  return {
    name: 'offshoot-pages',
    configureServer(server) {
      server.middlewares.use((request, _answer, next) => {
        if (isPage(request.url, request.headers.accept)) request.url = '/index.html';
        next();
      });
    },
    configurePreviewServer(server) {
      server.middlewares.use((request, answer, next) => {
        if (!isPage(request.url, request.headers.accept)) return next();
        answerPage(answer);
      });
    },
  };
}

/** Puts the licences of the bundled libraries beside them. */
function licences(): Plugin {
  return {
    name: 'offshoot-licences',
    generateBundle(_options, bundle) {
      const modules = Object.values(bundle).flatMap((file) => (file.type === 'chunk' ? Object.keys(file.modules) : []));
      const named = modules.map((id) => id.match(/^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/)?.[0]);
      const dirs = [...new Set(named.filter((dir) => dir !== undefined))].sort();
      const texts = dirs.filter((dir) => existsSync(`${dir}/package.json`)).map((dir) => {
        const about = JSON.parse(readFileSync(`${dir}/package.json`, 'utf8'));
        const files = readdirSync(dir).filter((name) => /^(licen[cs]e|copying|notice)/i.test(name)).sort();
        const words = files.map((name) => readFileSync(`${dir}/${name}`, 'utf8').trim());
        return [`${about.name} ${about.version} (${about.license})`, ...words].join('\n\n');
      });
      this.emitFile({ type: 'asset', fileName: 'licences.txt', source: texts.join(`\n\n${'-'.repeat(80)}\n\n`) + '\n' });
    },
  };
}

// The server checks Host and Origin; a proxied request has those of the server itself.
const toServer: ProxyOptions = {
  target: SERVER,
  changeOrigin: true,
  configure: (proxy) => proxy.on('proxyReq', (request) => request.removeHeader('origin')),
};
const proxy = Object.fromEntries(
  ['/api', '/sign-in', '/sign-out', '/openapi.json', '/healthz'].map((path) => [path, toServer]),
);

// A link that was used up is answered with the page, which says what to do.
const previewProxy = {
  ...proxy,
  '/sign-in': {
    ...toServer,
    selfHandleResponse: true,
    configure: (server, options) => {
      toServer.configure?.(server, options);
      server.on('proxyRes', (from, request, answer) => {
        if (from.statusCode === 401 && request.headers.accept?.includes('text/html')) return answerPage(answer as ServerResponse, 401);
        (answer as ServerResponse).writeHead(from.statusCode ?? 502, from.headers);
        from.pipe(answer);
      });
    },
  } satisfies ProxyOptions,
};

export default defineConfig(({ command }) => ({
  plugins: [svelte(), pages(), licences()],
  resolve: { alias: { '~': new URL('./src', import.meta.url).pathname } },
  html: command === 'build' ? { cspNonce: NONCE } : {},
  build: {
    target: 'es2023',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 900,
    // What every page needs is one file: thirty small ones would queue for six connections.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: 'base', test: BASE }] } } },
  },
  server: { proxy, port: 5173 },
  preview: { proxy: previewProxy, port: 5174 },
  test: { include: ['src/**/*.test.ts'] },
}));
