// A picture of a page with at most 256 colours, which a page hardly has more of: a third of the bytes.
import { deflateSync } from 'node:zlib';
import type { Page } from '@playwright/test';

const TABLE = Array.from({ length: 256 }, (_, n) => { for (let k = 0; k < 8; k += 1) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1; return n >>> 0; });
const crc = (bytes: Buffer) => (bytes.reduce((sum, byte) => TABLE[(sum ^ byte) & 255]! ^ (sum >>> 8), 0xffffffff) ^ 0xffffffff) >>> 0;

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc(body));
  return Buffer.concat([length, body, sum]);
}

/** The most frequent colours stay as they are, all others become the nearest of them. `page` is any page: it decodes. */
export async function smaller(page: Page, png: Buffer): Promise<Buffer> {
  const found = await page.evaluate(async (base64) => {
    const image = await createImageBitmap(new Blob([Uint8Array.from(atob(base64), (one) => one.charCodeAt(0))]));
    const context = new OffscreenCanvas(image.width, image.height).getContext('2d')!;
    context.drawImage(image, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
    const counts = new Map<number, number>();
    for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
    const parts = (pixel: number) => [pixel & 255, (pixel >>> 8) & 255, (pixel >>> 16) & 255] as const;
    const far = (a: number, b: number) => { const [p, q] = [parts(a), parts(b)]; return (p[0] - q[0]) ** 2 * 2 + (p[1] - q[1]) ** 2 * 4 + (p[2] - q[2]) ** 2 * 3; };
    const sorted = [...counts].sort((a, b) => b[1] - a[1]).map(([pixel]) => pixel);
    const palette: number[] = [];
    // What is close to a colour that is taken is drawn with that one, so that rare colours get a place, too.
    for (const near of [160, 0]) for (const pixel of sorted) if (palette.length < 256 && palette.every((other) => far(pixel, other) > near)) palette.push(pixel);
    const index = new Map(sorted.map((pixel) => [pixel, palette.reduce((best, other, i) => (far(pixel, other) < far(pixel, palette[best]!) ? i : best), 0)]));
    let text = '';
    for (const pixel of pixels) text += String.fromCharCode(index.get(pixel)!);
    return { width: image.width, height: image.height, palette: palette.flatMap(parts), indexes: btoa(text) };
  }, png.toString('base64'));
  const { width, height, palette } = found;
  const indexes = Buffer.from(found.indexes, 'base64');
  const rows = Buffer.concat(Array.from({ length: height }, (_, y) => Buffer.concat([Buffer.of(0), indexes.subarray(y * width, (y + 1) * width)])));
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  return Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), chunk('IHDR', head), chunk('PLTE', Buffer.from(palette)), chunk('IDAT', deflateSync(rows, { level: 9 })), chunk('IEND', Buffer.alloc(0))]);
}
