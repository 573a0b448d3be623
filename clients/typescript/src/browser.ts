/**
 * Asks an xlashape server from a browser, over Connect. The client is the same as in Node; questions about very many integers take a call for
 * each part, since browsers cannot send streams.
 *
 * @packageDocumentation
 */

import { createConnectTransport } from "@connectrpc/connect-web";
import { ConnectError } from "@connectrpc/connect";

import type { Client } from "./client.js";
import { check, Code } from "./errors.js";
import type { Route } from "./calls.js";
import { clientOf, type ConnectOptions, type TransportOptions } from "./options.js";

export * from "./common.js";

/** Makes a client. Without `address` and `baseUrl` it asks the server of the page. */
export function connect(options: ConnectOptions = {}): Client {
  const isOfPage = options.address === undefined && options.baseUrl === undefined;
  return clientOf(isOfPage ? { ...options, baseUrl: globalThis.location.origin } : options, "connect", open);
}

function open({ baseUrl, socket, name, interceptors, tls }: TransportOptions): Route {
  check(name !== "grpc", "INVALID_ARGUMENT", "transport", "browsers do not have gRPC");
  check(socket === undefined, "INVALID_ARGUMENT", "address", "browsers do not have unix sockets");
  check(Object.keys(tls).length === 0, "INVALID_ARGUMENT", "tls", "browsers do not have own certificates");
  const aborted = new AbortController();
  const transport = createConnectTransport({ baseUrl, useBinaryFormat: true, interceptors: [...interceptors], fetch: (input, init) => reach(input, init, aborted.signal) });
  return { transport, close: () => aborted.abort() };
}

/** A failed fetch is a TypeError, as are mistakes in programs. */
async function reach(input: RequestInfo | URL, init: RequestInit | undefined, closed: AbortSignal): Promise<Response> {
  if (closed.aborted) {
    throw new ConnectError("the client is closed", Code.Canceled);
  }
  try {
    return await fetch(input, init);
  } catch (error) {
    throw init?.signal?.aborted ? error : new ConnectError(String(error), Code.Unavailable, undefined, undefined, error);
  }
}
