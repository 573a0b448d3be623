/**
 * Asks an xlashape server from Node, over gRPC or Connect.
 *
 * Integers of 64 bits are `bigint` in all answers, and a `BigInt64Array` where they are many. What is given to this package may be a number too, as long as
 * it is a safe integer. {@link toJson} writes answers as JSON, {@link toNumbers} makes numbers of bigints.
 *
 * @packageDocumentation
 */

import { Agent as HttpAgent, type RequestOptions } from "node:http";
import type { ClientSessionOptions } from "node:http2";
import { Agent as HttpsAgent } from "node:https";
import { connect as connectSocket, isIP, type Socket } from "node:net";
import { connect as connectTls, type SecureContextOptions } from "node:tls";

import { createConnectTransport, createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";

import type { Client } from "./client.js";
import type { Route } from "./calls.js";
import { clientOf, type ConnectOptions, type TransportOptions } from "./options.js";

export * from "./common.js";

/**
 * Makes a client. The connection is made by the first call, and again whenever it breaks; it does not keep the process alive.
 *
 * ```ts
 * const client = connect({ address: "localhost:50051" });
 * const size = await client.byteSize("bf16[20,300]{1,0:T(8,128)(2,1)}");
 * console.log(size.logicalBytes, size.physicalBytes); // 12000n 18432n
 * ```
 */
export function connect(options: ConnectOptions): Client {
  return clientOf(options, "grpc", open);
}

function open(options: TransportOptions): Route {
  return options.name === "grpc" ? openHttp2(options) : openHttp1(options);
}

/** The window of HTTP/2 for what has been sent and not been read. With its default of 64 KiB bulk answers wait for the way back. */
const WINDOW_BYTES = 4 << 20;

/** How long a server may say nothing after it was connected to, before the connection is given up; and before other servers are preferred. */
const HANDSHAKE_MS = 20_000;
const READY_MS = 5000;

function openHttp2({ baseUrl, socket, interceptors, settings, tls }: TransportOptions): Route {
  const { protocol, hostname, port } = new URL(baseUrl);
  const host = hostname.replace(/^\[|\]$/g, "");
  const isPlain = protocol === "http:";
  const place = socket === undefined ? { host, port: Number(port || (isPlain ? 80 : 443)) } : { path: socket };
  let last: Socket | undefined;
  const createConnection = () => {
    const made = isPlain ? connectSocket(place) : connectTls({ ...place, ...(isIP(host) ? {} : { servername: host }), ALPNProtocols: ["h2"], ...(tls as SecureContextOptions) });
    setTimeout(() => made.bytesRead === 0 && made.destroy(new Error("the server says nothing")), HANDSHAKE_MS).unref();
    return (last = made);
  };
  const nodeOptions: ClientSessionOptions = { settings: { initialWindowSize: WINDOW_BYTES }, createConnection };
  const sessionManager = new Http2SessionManager(baseUrl, settings.keepaliveMs > 0 ? { pingIntervalMs: settings.keepaliveMs } : {}, nodeOptions);
  const transport = createGrpcTransport({ baseUrl, interceptors, readMaxBytes: settings.maxAnswerBytes, sessionManager });
  const isReady = async () => {
    const end = Date.now() + READY_MS;
    const isConnected = (await sessionManager.connect()) !== "error";
    while (isConnected && last?.bytesRead === 0 && !last.destroyed && Date.now() < end) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return isConnected && last !== undefined && last.bytesRead > 0 && !last.destroyed;
  };
  return { transport, isReady, close: () => sessionManager.abort() };
}

function openHttp1({ baseUrl, socket, interceptors, settings, tls }: TransportOptions): Route {
  const agent = new (baseUrl.startsWith("https:") ? HttpsAgent : HttpAgent)({ keepAlive: true });
  const nodeOptions: RequestOptions = { agent, ...(tls as SecureContextOptions), ...(socket === undefined ? {} : { socketPath: socket }) };
  const transport = createConnectTransport({
    httpVersion: "1.1", baseUrl, interceptors, readMaxBytes: settings.maxAnswerBytes, nodeOptions,
  });
  return { transport, close: () => agent.destroy() };
}
