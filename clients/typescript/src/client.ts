/** A client of one server, or of several that hold the same modules. */

import type { Transport } from "@connectrpc/connect";

import { type CallOptions, pause } from "./calls.js";
import { Code, errorOf, type XlashapeError } from "./errors.js";
import { ClientMethods } from "./methods.js";

/**
 * Asks one server, or several that hold the same modules; `connect` makes it. It may be used for many calls at once.
 *
 * All methods that ask the server take {@link CallOptions} last, and reject with an {@link XlashapeError}.
 */
export class Client extends ClientMethods {
  /** Use `connect`. @internal */
  constructor(transport: Transport, hasStreams: boolean, private readonly disconnect: () => void) {
    super(transport, hasStreams);
  }

  /** Ends the connections, and all calls. */
  close(): void {
    this.disconnect();
  }

  /** `close`, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  /** Resolves once the server answers calls. Rejects with the reason why it is not reached when the time is over, and at once where the server refuses. */
  async waitUntilReady({ signal, timeoutMs = 60_000 }: CallOptions = {}): Promise<void> {
    const end = timeoutMs ? Date.now() + timeoutMs : Infinity;
    let unreached: XlashapeError | undefined;
    for (;;) {
      const left = timeoutMs ? Math.max(end - Date.now(), 1) : 0;
      const asked = this.byteSizes([], { timeoutMs: left, ...(signal && { signal }) });
      const error = await asked.then(() => undefined, (cause: unknown) => errorOf(cause));
      if (error === undefined) {
        return;
      }
      if (error.code === Code.DeadlineExceeded) {
        throw unreached ?? error; // the time was over during a try: an earlier one says more
      }
      if (error.code !== Code.Unavailable || Date.now() >= end) {
        throw error;
      }
      unreached = error;
      await pause(50, signal);
    }
  }
}
