// Markdown to a fragment that cannot run anything: raw HTML becomes text, then DOMPurify.
import DOMPurify from 'dompurify';
import { Marked } from 'marked';

const escaped = (text: string) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
const marked = new Marked({ gfm: true, breaks: false, async: false, renderer: { html: ({ text }) => escaped(text) } });

export interface Resolve {
  link: (path: string) => string;
  /** The picture at a path, as an address that lasts as long as the page; null if there is none. */
  image: (path: string) => Promise<string | null>;
}

/** A relative address, joined to the directory of its file; null for all others. */
function relative(address: string, dir: string): string | null {
  if (/^([a-z][a-z0-9+.-]*:|\/\/|#)/i.test(address)) return null;
  let path: string;
  try {
    // Decoded first: `%2e%2e` and `%2F` are ways up, too.
    path = decodeURIComponent(address.replace(/[?#].*$/, ''));
  } catch {
    return null;
  }
  const parts: string[] = [];
  for (const part of (path.startsWith('/') ? path : `${dir}/${path}`).split('/')) {
    if (part === '..') parts.pop();
    else if (part && part !== '.') parts.push(part);
  }
  return parts.join('/');
}

export function render(text: string, dir: string, resolve: Resolve): DocumentFragment {
  const html = marked.parse(text) as string;
  const fragment = DOMPurify.sanitize(html, { RETURN_DOM_FRAGMENT: true, FORBID_TAGS: ['style', 'form'], FORBID_ATTR: ['style', 'id', 'class', 'name'] });
  for (const link of fragment.querySelectorAll('a[href]')) {
    const address = link.getAttribute('href') ?? '';
    const path = relative(address, dir);
    if (path !== null) link.setAttribute('href', resolve.link(path));
    else if (!address.startsWith('#')) {
      link.setAttribute('target', '_blank');
      link.setAttribute('rel', 'noopener noreferrer');
    }
  }
  for (const image of fragment.querySelectorAll('img')) {
    const path = relative(image.getAttribute('src') ?? '', dir);
    const words = document.createTextNode(image.alt || '🖼');
    // The address in the text is not one that a browser may ask for by itself.
    image.removeAttribute('src');
    image.removeAttribute('srcset');
    if (path === null) image.replaceWith(words);
    else void resolve.image(path).then((address) => (address ? image.setAttribute('src', address) : image.replaceWith(words)));
  }
  for (const box of fragment.querySelectorAll('input')) box.setAttribute('aria-label', box.parentElement?.textContent?.trim().slice(0, 80) || 'task');
  return fragment;
}
