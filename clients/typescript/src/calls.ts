/** How calls are made: with a deadline, again while the server is unavailable, to each of several servers in turn, and with this package's errors. */

import type { Transport } from "@connectrpc/connect";

import { Code, errorOf } from "./errors.js";

/** What holds for one call. */
export interface CallOptions {
  /** Ends the call. The error has code `Code.Canceled`, or `Code.DeadlineExceeded` for a signal of `AbortSignal.timeout`. */
  signal?: AbortSignal;
  /** Milliseconds that the call may take, all attempts included, instead of the client's `timeoutMs`. 0: as long as it takes. */
  timeoutMs?: number;
}

/** What holds for all calls of a client. */
export interface Policy {
  /** Milliseconds that a call may take, with all its attempts. 0: as long as it takes. */
  timeoutMs: number;
  /** How often a call is sent in all. */
  attempts: number;
}

/** The pause before the second attempt is random, up to this number of milliseconds; before each later one up to twice as long. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2000;

/**
 * A transport that sends each call over the next of `transports`. A call whose server is unavailable is sent again as long as no message of its answer has
 * come.
 * All errors are {@link XlashapeError}s.
 */
export function withPolicy(transports: readonly Transport[], policy: Policy): Transport {
  let sent = 0;
  const next = () => transports[sent++ % transports.length]!;

  async function attempts<T>(
    signal: AbortSignal | undefined, timeoutMs: number | undefined, once: (leftMs: number) => Promise<T>, end: number,
  ): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await once(timeoutMs ? Math.max(end - Date.now(), 1) : 0);
      } catch (cause) {
        const error = errorOf(cause, signal, Date.now() >= end);
        const pauseMs = Math.random() * Math.min(FIRST_PAUSE_MS * 2 ** (attempt - 1), LONGEST_PAUSE_MS);
        if (error.code !== Code.Unavailable || attempt >= policy.attempts || Date.now() + pauseMs >= end) {
          throw error;
        }
        await pause(pauseMs, signal);
      }
    }
  }

  return {
    unary(method, signal, timeoutMs = policy.timeoutMs, header, input, contextValues) {
      const end = timeoutMs ? Date.now() + timeoutMs : Infinity;
      return attempts(signal, timeoutMs, (leftMs) => next().unary(method, signal, leftMs, header, input, contextValues), end);
    },
    stream(method, signal, timeoutMs = policy.timeoutMs, header, input, contextValues) {
      const end = timeoutMs ? Date.now() + timeoutMs : Infinity;
      const requests = new Replay(input);
      return attempts(signal, timeoutMs, async (leftMs) => {
        const call = new AbortController(); // leaving the loop over the answers ends the call
        const abort = () => call.abort(signal?.reason);
        if (signal?.aborted) {
          abort();
        }
        signal?.addEventListener("abort", abort);
        const finish = () => {
          signal?.removeEventListener("abort", abort);
          call.abort();
        };
        try {
          const response = await next().stream(method, call.signal, leftMs, header, requests, contextValues);
          const messages = response.message[Symbol.asyncIterator]();
          const first = await messages.next();
          requests.forget();
          return { ...response, message: received(first, messages, finish, signal, end) } as typeof response;
        } catch (error) {
          finish();
          throw error;
        }
      }, end);
    },
  };
}

async function* received<T>(
  first: IteratorResult<T>, messages: AsyncIterator<T>, finish: () => void, signal: AbortSignal | undefined, end: number,
): AsyncGenerator<T> {
  try {
    for (let next = first; !next.done; next = await messages.next()) {
      yield next.value;
    }
  } catch (cause) {
    throw errorOf(cause, signal, Date.now() >= end);
  } finally {
    finish();
  }
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(errorOf(signal?.reason, signal));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** Messages that can be iterated over once more until `forget` is called: what an attempt has sent, the next one sends again. */
class Replay<T> implements AsyncIterable<T> {
  private readonly source: AsyncIterator<T>;
  private readonly taken: (Promise<IteratorResult<T>> | undefined)[] = [];
  private keeps = true;

  constructor(messages: AsyncIterable<T>) {
    this.source = messages[Symbol.asyncIterator]();
  }

  forget(): void {
    this.keeps = false;
  }

  /** Ends the source, unless a further attempt may need it. */
  private end(): void {
    if (!this.keeps) {
      this.source.return?.().catch(() => undefined); // not waited for: the source may itself wait for something
    }
  }

  [Symbol.asyncIterator](): AsyncIterator<T> {
    let position = 0;
    return {
      next: () => {
        const message = (this.taken[position] ??= this.source.next());
        if (!this.keeps) {
          this.taken[position] = undefined;
        }
        position++;
        return message;
      },
      return: async () => {
        this.end();
        return { done: true, value: undefined };
      },
      throw: async (error) => {
        this.end();
        throw error;
      },
    };
  }
}
