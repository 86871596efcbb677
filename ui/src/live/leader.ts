// One stream for all tabs: whoever holds the lock reads, the others listen. On HTTP/1.1 a browser
// has six connections to a server, so a stream for each tab would hang the seventh.
import { isMessage, type Message } from './events';
import { Stream } from './stream';

const NAME = 'offshoot-live';

export class Leader {
  #channel: BroadcastChannel | null = null;
  #stream: Stream | null = null;
  #release: () => void = () => {};
  #stopped = false;
  #seq: number | null = null;
  #online = false;
  #tell: (message: Message) => void;

  constructor(tell: (message: Message) => void) {
    this.#tell = tell;
    if (!navigator.locks || typeof BroadcastChannel === 'undefined') this.#lead();
    else this.#share();
  }

  #share(): void {
    this.#channel = new BroadcastChannel(NAME);
    this.#channel.onmessage = ({ data }: MessageEvent<unknown>) => { if (isMessage(data)) this.#hear(data); };
    this.#channel.postMessage({ kind: 'hello' } satisfies Message);
    void navigator.locks.request(NAME, () => {
      if (this.#stopped) return;
      this.#lead();
      return new Promise<void>((resolve) => (this.#release = resolve));
    });
  }

  wake(): void {
    this.#stream?.wake();
  }

  close(): void {
    this.#stopped = true;
    this.#stream?.close();
    this.#channel?.close();
    this.#release();
  }

  #lead(): void {
    this.#stream = new Stream(this.#seq, (message) => {
      this.#note(message);
      this.#channel?.postMessage(message);
      this.#tell(message);
    });
  }

  #hear(message: Message): void {
    if (message.kind === 'hello') {
      if (this.#stream) this.#channel?.postMessage({ kind: 'state', online: this.#online, seq: this.#stream.cursor ?? 0 });
      return;
    }
    this.#note(message);
    this.#tell(message);
  }

  #note(message: Message): void {
    if ('seq' in message && message.seq > 0) this.#seq = message.seq;
    if (message.kind === 'state') this.#online = message.online;
  }
}
