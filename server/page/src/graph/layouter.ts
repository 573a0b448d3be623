/** Layouts from a worker; from this thread where there are no workers, as in a file. */

import { type Layout, type LayoutInput, layout } from "./layout.js";

export class Layouter {
  private worker: Worker | undefined;
  private readonly waiting = new Map<number, { input: LayoutInput; resolve: (made: Layout) => void }>();
  private last = 0;

  /** `isAlone`: without a server, as in a file, there is no script of a worker. */
  constructor(isAlone: boolean) {
    if (isAlone) return;
    try {
      this.worker = new Worker(new URL("layout-worker.js", document.baseURI), { type: "module" });
    } catch {
      return;
    }
    this.worker.onmessage = ({ data }: MessageEvent<{ id: number; made: Layout }>) => {
      this.waiting.get(data.id)?.resolve(data.made);
      this.waiting.delete(data.id);
    };
    this.worker.onerror = () => {
      this.worker = undefined;
      for (const { input, resolve } of this.waiting.values()) resolve(layout(input));
      this.waiting.clear();
    };
  }

  layout(input: LayoutInput): Promise<Layout> {
    if (!this.worker) return new Promise((resolve) => setTimeout(() => resolve(layout(input)), 0));
    const id = ++this.last;
    return new Promise((resolve) => {
      this.waiting.set(id, { input, resolve });
      this.worker?.postMessage({ id, input });
    });
  }

  dispose(): void {
    this.worker?.terminate();
  }
}
