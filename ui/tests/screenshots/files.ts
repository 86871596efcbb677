// The files of the project on the pictures: a small shop, as it stands before the agents begin.
export const LOGO = `<svg xmlns="http://www.w3.org/2000/svg" width="480" height="240" viewBox="0 0 480 240">
  <rect width="480" height="240" fill="#f3ece0"/><circle cx="120" cy="120" r="72" fill="#2f6b4f"/>
  <path d="M84 126c24-52 66-58 84-54-4 40-30 66-66 66m-14 22c6-24 20-44 44-58" fill="none" stroke="#f3ece0" stroke-width="10" stroke-linecap="round"/>
  <text x="216" y="136" textLength="236" lengthAdjust="spacingAndGlyphs" font-family="sans-serif" font-size="52" font-weight="600" fill="#2b2b2b">greenleaf</text></svg>`;

export const README = `# Greenleaf

The web shop for plants and seeds.

![Logo](docs/logo.png)

## Getting started

\`\`\`sh
npm install
npm run dev
\`\`\`

The shop answers on port 3000. Prices are in cents; see [pricing](docs/pricing.md).

| folder | what is in it |
|---|---|
| \`src/cart\` | what a customer collects |
| \`src/pricing\` | discounts, tax, shipping |
| \`data\` | the catalogue |
`;

const CART = `import { priceOf } from '../pricing/price';

export interface Line {
  sku: string;
  count: number;
}

/** What a customer collects before checking out. */
export class Cart {
  #lines = new Map<string, Line>();

  add(sku: string, count = 1): void {
    const line = this.#lines.get(sku);
    this.#lines.set(sku, { sku, count: (line?.count ?? 0) + count });
  }

  remove(sku: string): void {
    this.#lines.delete(sku);
  }

  get total(): number {
    let cents = 0;
    for (const { sku, count } of this.#lines.values()) cents += priceOf(sku) * count;
    return cents;
  }
}
`;

const PRICE = `import catalogue from '../../data/catalogue.json';

const TAX = 0.19;

/** The price of one piece in cents, with tax. */
export function priceOf(sku: string): number {
  const item = catalogue.items.find((one) => one.sku === sku);
  if (!item) throw new Error('no such item: ' + sku);
  return Math.round(item.cents * (1 + TAX));
}

/** Shipping is free from 50 euros on. */
export function shipping(total: number): number {
  return total >= 5000 ? 0 : 490;
}
`;

const SERVER = `import { createServer } from 'node:http';
import config from '../config/app.json';
import { Cart } from './cart/cart';

const cart = new Cart();

createServer((request, answer) => {
  const { pathname } = new URL(request.url ?? '/', 'http://localhost');
  if (pathname === '/api/cart') return void answer.end(JSON.stringify({ total: cart.total }));
  answer.writeHead(404).end();
}).listen(config.port);
`;

export const SALES = `day,orders,items,revenue,returns
2026-11-02,41,96,1284.50,2
2026-11-03,38,88,1109.20,1
2026-11-04,52,131,1790.00,3
2026-11-05,47,102,1402.75,0
2026-11-06,63,158,2211.40,4
2026-11-07,88,240,3305.10,5
2026-11-08,79,201,2874.65,2
2026-11-09,44,97,1298.30,1
2026-11-10,40,93,1240.00,2
2026-11-11,57,139,1876.90,3
2026-11-12,49,118,1530.25,1
2026-11-13,66,170,2390.80,2
2026-11-14,91,256,3467.35,6
2026-11-15,83,215,2990.10,3
`;

const CONFIG = { name: 'greenleaf', port: 3000, currency: 'EUR', features: { wishlist: false, reviews: true }, limits: { cart: 50, upload: '5 MB' } };
const ITEMS = ['Monstera', 'Basil', 'Lavender', 'Fern', 'Aloe', 'Ivy', 'Mint', 'Thyme'].map((name, i) => ({ sku: `GL-${100 + i}`, name, cents: 490 + 350 * i, stock: 12 + 7 * i }));
export const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;

export const SHOP: Record<string, string> = {
  'README.md': README,
  'LICENSE': 'Apache License, Version 2.0\n',
  'package.json': json({ name: 'greenleaf', version: '1.4.0', scripts: { dev: 'vite', test: 'vitest run' }, dependencies: { zod: '4.1.0' } }),
  'package-lock.json': json({ name: 'greenleaf', lockfileVersion: 3, packages: { 'node_modules/zod': { version: '4.1.0' } } }),
  'config/app.json': json(CONFIG),
  'data/catalogue.json': json({ items: ITEMS }),
  'data/sales.csv': SALES,
  'docs/pricing.md': '# Pricing\n\nAll prices are in cents and with tax.\n\nShipping is free from 50 euros on.\n',
  'docs/logo.svg': LOGO,
  'src/server.ts': SERVER,
  'src/cart/cart.ts': CART,
  'src/cart/cart.test.ts': "import { expect, test } from 'vitest';\nimport { Cart } from './cart';\n\ntest('an empty cart costs nothing', () => {\n  expect(new Cart().total).toBe(0);\n});\n",
  'src/pricing/price.ts': PRICE,
  'src/pages/Home.svelte': '<script lang="ts">\n  let { items } = $props();\n</script>\n\n<h1>Greenleaf</h1>\n{#each items as item}<p>{item.name}</p>{/each}\n',
  'infra/deploy.yml': 'image: greenleaf:1.4\nreplicas: 2\nregion: eu-central\n',
  'styles/shop.css': ':root { --leaf: #2f6b4f; }\nbody { font: 16px/1.5 system-ui; }\n',
};
