// pdf.js with its worker, under a CSP with Trusted Types: a policy of ours allows that one address.
import { getDocument, GlobalWorkerOptions, type RenderTask } from 'pdfjs-dist';
import workerUrl from 'pdfjs-dist/build/pdf.worker.min.mjs?url';

export interface Pdf {
  pages: number;
  draw: (page: number, canvas: HTMLCanvasElement, width: number) => Promise<void>;
  close: () => void;
}

interface Policies {
  createPolicy: (name: string, rules: { createScriptURL: (url: string) => string }) => { createScriptURL: (url: string) => string };
}

let started = false;

function startWorker(): void {
  if (started) return;
  started = true;
  const { trustedTypes } = globalThis as { trustedTypes?: Policies };
  const only = (url: string) => {
    if (url !== workerUrl) throw new TypeError('not our worker');
    return url;
  };
  const policy = trustedTypes?.createPolicy('offshoot-worker', { createScriptURL: only });
  GlobalWorkerOptions.workerPort = new Worker(policy?.createScriptURL(workerUrl) ?? workerUrl, { type: 'module' });
}

export async function openPdf(bytes: Uint8Array): Promise<Pdf> {
  startWorker();
  const loading = getDocument({ data: bytes.slice(), useWasm: false, enableXfa: false });
  const document = await loading.promise;
  let task: RenderTask | null = null;
  return {
    pages: document.numPages,
    async draw(number, canvas, width) {
      task?.cancel();
      const page = await document.getPage(number);
      const scale = (width / page.getViewport({ scale: 1 }).width) * devicePixelRatio;
      const viewport = page.getViewport({ scale });
      canvas.width = viewport.width;
      canvas.height = viewport.height;
      task = page.render({ canvas, viewport });
      await task.promise;
    },
    close: () => void loading.destroy(),
  };
}
