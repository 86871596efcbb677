// Server-sent events from bytes. EventSource would hide the heartbeats, and with them a dead line.

export interface Frame {
  id?: string;
  event: string;
  data: string;
}

/** Takes text in pieces of any size and gives whole frames; comments give none. */
export class Parser {
  #rest = '';

  push(text: string): Frame[] {
    const blocks = (this.#rest + text).split(/\r?\n\r?\n/);
    this.#rest = blocks.pop() ?? '';
    return blocks.flatMap((block) => {
      const frame: Frame = { event: 'message', data: '' };
      const data: string[] = [];
      for (const line of block.split(/\r?\n/)) {
        const at = line.indexOf(':');
        const name = at < 0 ? line : line.slice(0, at);
        const value = at < 0 ? '' : line.slice(at + 1).replace(/^ /, '');
        if (name === 'data') data.push(value);
        else if (name === 'event') frame.event = value;
        else if (name === 'id') frame.id = value;
      }
      frame.data = data.join('\n');
      return data.length ? [frame] : [];
    });
  }
}
