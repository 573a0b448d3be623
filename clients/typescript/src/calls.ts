/** How calls are made: with a deadline, again while the server is unavailable, to each of several servers in turn, and with this package's errors. */

import type { Transport } from "@connectrpc/connect";
import { createLinkedAbortController } from "@connectrpc/connect/protocol";

import { Code, errorOf, mistake } from "./errors.js";
import type { Settings } from "./settings.js";

/** What holds for one call. */
export interface CallOptions {
  /** Ends the call. The error has code `Code.Canceled`, or `Code.DeadlineExceeded` for a signal of `AbortSignal.timeout`. */
  signal?: AbortSignal;
  /** Milliseconds that the call may take, all attempts included, instead of the client's `timeoutMs`. 0: as long as it takes. */
  timeoutMs?: number;
}

/** The pause before the second attempt is random, up to this number of milliseconds; before each later one up to twice as long. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2000;

/** A server that was not available is asked last for this time. */
const REST_MS = 5000;

/** A transport to one server. */
export interface Route {
  transport: Transport;
  /** Whether the server speaks, after it was tried to connect. Absent where that cannot be known. Does not reject. */
  isReady?(): Promise<boolean>;
  /** Closes the connection. */
  close(): void;
}

/** The servers, of which each call gets the next one that is not known to be dead. */
class Servers {
  private sent = 0;
  private readonly restsUntil: number[];
  private readonly checks: (Promise<number> | undefined)[] = [];

  constructor(private readonly routes: readonly Route[]) {
    this.restsUntil = routes.map(() => 0);
  }

  /** Calls the next server, and remembers whether it was available. */
  async call<T>(once: (transport: Transport) => Promise<T>): Promise<T> {
    const i = await this.next();
    return once(this.routes[i]!.transport).catch((cause: unknown) => {
      this.restsUntil[i] = errorOf(cause).code === Code.Unavailable ? Date.now() + REST_MS : 0;
      throw cause;
    });
  }

  /** The first server in turn that is ready, or becomes so: one that says nothing holds no call. */
  private async next(): Promise<number> {
    const first = this.sent++;
    const inTurn = this.routes.map((_, i) => (first + i) % this.routes.length);
    const untried = inTurn.filter((i) => this.restsUntil[i]! <= Date.now());
    return Promise.any(this.routes.length > 1 ? untried.map((i) => (this.checks[i] ??= this.ready(i))) : []).catch(() =>
      inTurn.reduce((best, i) => (this.restsUntil[i]! < this.restsUntil[best]! ? i : best)),
    );
  }

  private async ready(i: number): Promise<number> {
    const isReady = (await this.routes[i]!.isReady?.()) ?? true;
    this.checks[i] = undefined;
    if (!isReady) {
      this.restsUntil[i] = Date.now() + REST_MS;
      throw new Error("not ready");
    }
    return i;
  }
}

/**
 * A transport that sends each call to the next server. A call with one request and one answer is sent again while the server is unavailable, if the
 * `idempotency_level` of its RPC allows it. A call with a stream is refused where the transport has none. All errors are {@link XlashapeError}s.
 */
export function withPolicy(routes: readonly Route[], settings: Required<Settings>, hasStreams: boolean): Transport {
  const servers = new Servers(routes);

  async function attempts<T>(
    most: number, signal: AbortSignal | undefined, timeoutMs: number | undefined, once: (leftMs: number) => Promise<T>, end: number,
  ): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await once(timeoutMs ? Math.max(end - Date.now(), 1) : 0);
      } catch (cause) {
        const error = errorOf(cause, signal, Date.now() >= end);
        const pauseMs = Math.random() * Math.min(FIRST_PAUSE_MS * 2 ** (attempt - 1), LONGEST_PAUSE_MS);
        if (error.code !== Code.Unavailable || attempt >= most || Date.now() + pauseMs >= end) {
          throw error;
        }
        await pause(pauseMs, signal);
      }
    }
  }

  return {
    unary(method, signal, timeoutMs = settings.timeoutMs, header, input, contextValues) {
      const end = timeoutMs ? Date.now() + timeoutMs : Infinity;
      const most = method.idempotency ? settings.attempts : 1;
      const once = (leftMs: number) => servers.call((transport) => transport.unary(method, signal, leftMs, header, input, contextValues));
      return attempts(most, signal, timeoutMs, once, end);
    },
    stream(method, signal, timeoutMs = settings.streamTimeoutMs, header, input, contextValues) {
      if (!hasStreams) {
        return Promise.reject(mistake("UNSUPPORTED", "", `${method.name} has a stream, which servers take over gRPC alone`, Code.Unimplemented));
      }
      const end = timeoutMs ? Date.now() + timeoutMs : Infinity;
      return attempts(1, signal, timeoutMs, async (leftMs) => {
        const call = createLinkedAbortController(signal); // leaving the loop over the answers ends the call
        try {
          return await servers.call(async (transport) => {
            const response = await transport.stream(method, call.signal, leftMs, header, input, contextValues);
            const messages = response.message[Symbol.asyncIterator]();
            const first = await messages.next();
            return { ...response, message: received(first, messages, call, signal, end) } as typeof response;
          });
        } catch (error) {
          call.abort();
          throw error;
        }
      }, end);
    },
  };
}

async function* received<T>(
  first: IteratorResult<T>, messages: AsyncIterator<T>, call: AbortController, signal: AbortSignal | undefined, end: number,
): AsyncGenerator<T> {
  try {
    for (let next = first; !next.done; next = await messages.next()) {
      yield next.value;
    }
  } catch (cause) {
    throw errorOf(cause, signal, Date.now() >= end);
  } finally {
    call.abort();
  }
}

/** Resolves after a time, or rejects with the error of the signal. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => resolve(clearTimeout(timer)), { once: true });
  });
  if (signal?.aborted) {
    throw errorOf(signal.reason, signal);
  }
}
