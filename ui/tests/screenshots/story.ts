// What happened before the pictures are taken: five agents work on a shop. Each step says how many
// minutes ago it shall seem to have been; `shifted` moves the times that the server gave to there.
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { APIRequestContext } from '@playwright/test';
import { at, half, offshoot, tolerant } from '../kit';
import { Repository } from '../repository';
import { README, SALES, SHOP } from './files';

interface Mark { real: number; shown: number }
/** What was played: ids that addresses need, and when what happened, the moment of the pictures last. */
export interface Story { merge: string; lines: string; json: string; guarded: string; marks: Mark[]; repository: string }

const marks: Mark[] = [];
const mark = (minutesAgo: number) => void marks.push({ real: Date.now(), shown: -minutesAgo * 60_000 });
function step(minutesAgo: number, run: () => void): void {
  mark(minutesAgo);
  run();
}

/** A time of the server as the pictures show it. What is yet to come stays as it is. */
function shown({ marks }: Story, time: number): number {
  const now = marks.at(-1)!.real;
  const next = marks.findIndex((one) => one.real > time);
  if (next < 0) return time;
  if (next === 0) return now + marks[0]!.shown;
  const [before, after] = [marks[next - 1]!, marks[next]!];
  return now + before.shown + ((time - before.real) / (after.real - before.real)) * (after.shown - before.shown);
}

/** An answer of the server with its times moved, and with a directory that a person might have. */
export const shifted = (story: Story, text: string) =>
  text.replaceAll(story.repository, '/srv/git/greenleaf').replace(/"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*Z)"/g, (_, time: string) => `"${new Date(shown(story, Date.parse(time))).toISOString()}"`);

function source(files: Record<string, string>, logo: Buffer): string {
  const dir = join(mkdtempSync(join(tmpdir(), 'offshoot-ui-source-')), 'greenleaf');
  for (const [name, content] of Object.entries({ ...files, 'docs/logo.png': logo })) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), content);
  }
  return dir;
}

const put = (who: string, path: string, text: string, message: string) => offshoot(['put', who, path, '--operator', who, '--message', message], text);
const swap = (path: string, ...pairs: [string, string][]) => pairs.reduce((text, [old, fresh]) => {
  if (!text.includes(old)) throw new Error(`${path} has no ${old}`);
  return text.replace(old, fresh);
}, SHOP[path]!);

/** Plays it all. */
export async function play(request: APIRequestContext, logo: Buffer): Promise<Story> {
  const spawn = async (id: string, role: string, parent = 'root', project?: string, priority = 0) => {
    const answer = await request.post(at('/api/v1/agents'), { headers: half(), data: { id, role, parent, priority, ...(project && { project }) } });
    if (!answer.ok()) throw new Error(await answer.text());
  };

  const repository = new Repository('greenleaf', { ...SHOP, 'docs/logo.png': logo }, 'Open the shop');
  step(2900, () => {
    offshoot(['project', 'create', 'greenleaf', '--from', repository.dir, '--link']);
    offshoot(['project', 'policy', 'greenleaf', '--set', '*-lock.json=last-writer-wins', '--set', 'docs/**=union', '--protect', 'infra', '--landing', 'partial']);
    offshoot(['project', 'create', 'newsletter', '--from', source({ 'README.md': '# Newsletter\n', 'issues/2026-11.md': '# November\n' }, logo)]);
  });
  mark(2899);
  mark(150);
  for (const [id, role, priority] of [['ada', 'pricing', 8], ['bob', 'cart and checkout', 5], ['cleo', 'documentation', 3], ['dan', 'storefront', 5], ['eve', 'tests', 2]] as const) await spawn(id, role, 'root', 'greenleaf', priority);
  await spawn('dan-icons', 'draws icons', 'dan');

  step(140, () => {
    put('eve', 'src/cart/cart.test.ts', `${SHOP['src/cart/cart.test.ts']}\ntest('two of one kind cost twice as much', () => {\n  const cart = new Cart();\n  cart.add('GL-100', 2);\n  expect(cart.total).toBe(1166);\n});\n`, 'cart-tests');
    put('eve', 'src/pricing/price.test.ts', "import { expect, test } from 'vitest';\nimport { shipping } from './price';\n\ntest('shipping is free from 50 euros on', () => {\n  expect(shipping(5000)).toBe(0);\n});\n", 'cart-tests');
    put('eve', 'package-lock.json', swap('package-lock.json', ['"4.1.0"', '"4.1.2"']), 'cart-tests');
  });
  step(118, () => offshoot(['complete', 'eve', '-m', 'Test carts and shipping', '--operator', 'eve', '--message', 'cart-tests']));
  step(96, () => {
    put('cleo', 'README.md', swap('README.md', ['The web shop for plants and seeds.', 'The web shop for plants, seeds and pots, open day and night.'], ['port 3000', 'port 8080']), 'readme');
    put('cleo', 'docs/pricing.md', `${SHOP['docs/pricing.md']}\n## Vouchers\n\nA voucher is taken off before tax.\n`, 'readme');
  });
  step(74, () => {
    put('ada', 'src/pricing/price.ts', swap('src/pricing/price.ts', ['const TAX = 0.19;', 'const TAX = { standard: 0.19, food: 0.07 };'], ['item.cents * (1 + TAX)', "item.cents * (1 + TAX[item.kind ?? 'standard'])"]), 'food-tax');
    put('ada', 'config/app.json', swap('config/app.json', ['"port": 3000', '"port": 8080'], ['"cart": 50', '"cart": 100']), 'food-tax');
    put('ada', 'src/cart/cart.ts', swap('src/cart/cart.ts', ['  get total(): number {', '  /** In cents, with tax and without shipping. */\n  get total(): number {']), 'food-tax');
  });
  step(61, () => offshoot(['complete', 'ada', '--keep', '-m', 'Food has a lower tax', '--operator', 'ada', '--message', 'food-tax']));
  step(58, () => offshoot(['push', 'greenleaf']));
  step(52, () => tolerant(['complete', 'cleo', '-m', 'Tell about pots and vouchers', '--operator', 'cleo', '--message', 'readme']));
  step(44, () => {
    put('bob', 'src/cart/cart.ts', swap('src/cart/cart.ts', ["import { priceOf } from", "import { priceOf, shipping } from"], ['    return cents;', '    return cents + shipping(cents);'], ['  remove(sku: string): void {\n    this.#lines.delete(sku);', '  remove(sku: string): boolean {\n    return this.#lines.delete(sku);']), 'checkout');
    put('bob', 'config/app.json', swap('config/app.json', ['"port": 3000', '"port": 4000'], ['"wishlist": false', '"wishlist": true'], ['"cart": 50', '"cart": 20']), 'checkout');
    put('bob', 'src/pricing/price.ts', swap('src/pricing/price.ts', ['const TAX = 0.19;', 'const TAX = 0.2;'], ['5000 ? 0 : 490', '3900 ? 0 : 450']), 'checkout');
    put('bob', 'infra/deploy.yml', swap('infra/deploy.yml', ['replicas: 2', 'replicas: 4']), 'checkout');
    put('bob', 'src/checkout.ts', "import { Cart } from './cart/cart';\n\nexport const checkout = (cart: Cart) => ({ total: cart.total, currency: 'EUR' });\n", 'checkout');
  });
  step(31, () => tolerant(['complete', 'bob', '-m', 'Check out', '--operator', 'bob', '--message', 'checkout']));
  const { reviews } = JSON.parse(offshoot(['--json', 'review', 'list'])) as { reviews: { id: string; path: string }[] };
  const reviewOf = (path: string) => reviews.find((one) => one.path === path)!.id;
  step(24, () => offshoot(['review', 'propose', reviewOf('src/pricing/price.ts'), '-', '--operator', 'cleo', '--note', 'Keeps both taxes and the new shipping'],
    swap('src/pricing/price.ts', ['const TAX = 0.19;', 'const TAX = { standard: 0.2, food: 0.07 };'], ['item.cents * (1 + TAX)', "item.cents * (1 + TAX[item.kind ?? 'standard'])"], ['5000 ? 0 : 490', '3900 ? 0 : 450'])));
  step(16, () => {
    put('dan', 'src/pages/Home.svelte', '<script lang="ts">\n  import Plant from \'./Plant.svelte\';\n  let { items } = $props();\n</script>\n\n<h1>Greenleaf</h1>\n<ul>{#each items as item (item.sku)}<Plant {item} />{/each}</ul>\n', 'new-home');
    put('dan', 'src/pages/Plant.svelte', '<script lang="ts">\n  let { item } = $props();\n</script>\n\n<li><b>{item.name}</b> {(item.cents / 100).toFixed(2)} €</li>\n', 'new-home');
    offshoot(['snapshot', 'dan', '-m', 'a card for each plant', '--operator', 'dan']);
    put('dan', 'styles/shop.css', `${SHOP['styles/shop.css']}li { padding: 12px; border-radius: 8px; }\n`, 'new-home');
    put('dan', 'data/sales.csv', SALES, 'new-home');
  });
  step(14, () => {
    repository.commit({ 'docs/opening-hours.md': '# Opening hours\n\nThe greenhouse is open from nine to six.\n' }, 'Tell when the greenhouse is open');
    repository.commit({ 'styles/shop.css': `${SHOP['styles/shop.css']}main { max-width: 72rem; }\n`, 'README.md': swap('README.md', ['port 3000', 'port 9000']) }, 'Use another port');
  });
  step(11, () => {
    offshoot(['fork', 'greenleaf', '--agent', 'finn']);
    put('finn', 'docs/shipping.md', '# Shipping\n\nParcels leave the greenhouse at noon.\n', 'shipping-page');
    offshoot(['fork', 'newsletter', '--agent', 'gita']);
    offshoot(['workspace', 'create', 'scratch']);
    put('scratch', 'ideas.md', '# Ideas\n\n- gift cards\n- plant care reminders\n', 'ideas');
  });
  step(6, () => {
    offshoot(['snapshot', 'ada', '-m', 'before vouchers', '--operator', 'ada']);
    put('ada', 'src/pricing/voucher.ts', "/** Takes a voucher off, before tax. */\nexport function redeem(cents: number, voucher: number): number {\n  return Math.max(0, cents - voucher);\n}\n", 'vouchers');
  });
  step(4, () => put('ada', 'README.md', README.replace('Prices are in cents', 'Prices and vouchers are in cents'), 'vouchers'));
  step(3, () => put('ada', 'data/catalogue.json', SHOP['data/catalogue.json']!.replace('"stock": 12', '"stock": 9'), 'vouchers'));
  step(2, () => {
    put('ada', 'src/cart/cart.ts', swap('src/cart/cart.ts', ['  get total(): number {', '  /** In cents, with tax and without shipping. */\n  get total(): number {'], ['/** What a customer collects before checking out. */', '/** What a customer collects, with at most one voucher. */'], ['    return cents;', '    return redeem(cents, this.voucher);'], ['  remove(sku', '  voucher = 0;\n\n  remove(sku']), 'vouchers');
    offshoot(['rm', 'ada', 'docs/logo.svg', '--operator', 'ada', '--message', 'vouchers']);
    offshoot(['mv', 'ada', 'styles/shop.css', 'styles/main.css', '--operator', 'ada', '--message', 'vouchers']);
  });
  step(1, () => {
    put('dan', 'src/pages/Home.svelte', '<script lang="ts">\n  import Plant from \'./Plant.svelte\';\n  let { items } = $props();\n</script>\n\n<h1>Fresh from the greenhouse</h1>\n<ul>{#each items as item (item.sku)}<Plant {item} />{/each}</ul>\n', 'new-home');
    put('dan', 'README.md', README.replace('npm run dev', 'npm start'), 'new-home');
    offshoot(['token', 'issue', '--admin', '--label', 'laptop of the owner']);
    offshoot(['token', 'issue', '--project', 'greenleaf', '--ttl', '30d', '--label', 'nightly build']);
    offshoot(['token', 'issue', '--workspace', 'dan', '--allow', 'src/**:read,write', '--ttl', '1h', '--label', 'editor']);
  });
  mark(0);
  const { merges } = JSON.parse(offshoot(['--json', 'merge', 'log', 'greenleaf'])) as { merges: { merge_id: string; workspace: string }[] };
  return { merge: merges.find((one) => one.workspace === 'bob')!.merge_id, lines: reviewOf('src/pricing/price.ts'), json: reviewOf('config/app.json'), guarded: reviewOf('infra/deploy.yml'), marks, repository: repository.dir };
}
