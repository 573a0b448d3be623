/**
 * Asks an xlashape server from a browser, over Connect or gRPC-Web. The client is the same as in Node; questions about very many integers take a call for
 * each part, since browsers cannot send streams.
 *
 * @packageDocumentation
 */

import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";
import { ConnectError } from "@connectrpc/connect";

import type { Client } from "./client.js";
import { Code, mistake } from "./errors.js";
import { type Connection, clientOf, type ConnectOptions, type TransportOptions } from "./options.js";

export * from "./common.js";

/** Makes a client. Without `address` and `baseUrl` it asks the server of the page. */
export function connect(options: ConnectOptions = {}): Client {
  const isOfPage = options.address === undefined && options.baseUrl === undefined;
  return clientOf(isOfPage ? { ...options, baseUrl: globalThis.location.origin } : options, "connect", open);
}

function open({ baseUrl, socket, name, interceptors, tls }: TransportOptions): Connection {
  if (name === "grpc" || socket !== undefined || Object.keys(tls).length > 0) {
    const [field, what] = name === "grpc" ? ["transport", "gRPC"] : socket !== undefined ? ["address", "unix sockets"] : ["tls", "own certificates"];
    throw mistake("INVALID_ARGUMENT", field, `browsers do not have ${what}`);
  }
  const aborted = new AbortController();
  const make = name === "connect" ? createConnectTransport : createGrpcWebTransport;
  const transport = make({ baseUrl, useBinaryFormat: true, interceptors: [...interceptors], fetch: (input, init) => reach(input, init, aborted.signal) });
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
