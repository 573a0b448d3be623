/** Lays out graphs beside the page. */

import { type LayoutInput, layout } from "./layout.js";

const scope = globalThis as unknown as { onmessage: (event: MessageEvent<{ id: number; input: LayoutInput }>) => void; postMessage(data: unknown, transfer: Transferable[]): void };

scope.onmessage = ({ data: { id, input } }) => {
  const made = layout(input);
  scope.postMessage({ id, made }, [made.x.buffer, made.y.buffer, made.layer.buffer, made.points.buffer, made.starts.buffer] as Transferable[]);
};
