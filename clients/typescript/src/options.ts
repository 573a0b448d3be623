/** How a client connects, and what holds for single calls. */

import type { Interceptor } from "@connectrpc/connect";

import { type Policy, type Route, withPolicy } from "./calls.js";
import { Client } from "./client.js";
import { mistake } from "./errors.js";

/** The version of this package. */
export const VERSION = "0.1.0";

/** How to speak to a server. Browsers speak `connect` and `grpc-web`. */
export type TransportName = "grpc" | "connect" | "grpc-web";

/** What `connect` is told. Exactly one of `address` and `baseUrl` is given; in a browser none of them stands for the server of the page. */
export interface ConnectOptions {
  /** HOST:PORT; in Node also unix:PATH. Several servers, which have the same modules, get calls in turn. */
  address?: string | readonly string[];
  /** The URL of the server, such as `https://example.com/xlashape`: what comes before the names of services. Several are allowed too. */
  baseUrl?: string | readonly string[];
  /** Default: `grpc` in Node, `connect` in browsers. */
  transport?: TransportName;
  /** Encrypts the connection to an `address`. In Node it may say which certificates are trusted, and with which the client identifies itself. */
  tls?: boolean | TlsOptions;
  /** Is sent with each call as a bearer token: a text, or a function that is asked for each call. Without TLS it travels readably. */
  token?: string | (() => string | Promise<string>);
  /** Milliseconds that a call may take, all attempts included, but for those with a stream. Default: 60,000. 0: as long as it takes. */
  timeoutMs?: number;
  /** Milliseconds that a call with a stream may take. Default: 0, as long as it takes: a slow reader is not cut off. */
  streamTimeoutMs?: number;
  /** Milliseconds of silence after which the server is asked for a sign of life, at least 10,000. Default: 0, never. gRPC in Node alone. */
  keepaliveMs?: number;
  /**
   * How often a call is sent in all while the server is unavailable, from 1 to 5, with growing, random pauses. Default: 4. Calls with a stream, and those
   * that a second one would change, are sent once.
   */
  attempts?: number;
  /** The bytes that one message from the server may have; browsers do not bound them. Default: 64 MiB. */
  maxAnswerBytes?: number;
  /** Of Connect: see https://connectrpc.com/docs/node/interceptors. They see each attempt. */
  interceptors?: readonly Interceptor[];
}

/** Certificates and keys in PEM. Node alone. */
export interface TlsOptions {
  /** The certificates that are trusted. Default: those of the system. */
  ca?: string | Uint8Array;
  /** The client's certificate. */
  cert?: string | Uint8Array;
  /** The key of the client's certificate. */
  key?: string | Uint8Array;
}

/** One server, as the transports of Node and of browsers take it. */
export interface Target {
  baseUrl: string;
  /** The path of a unix socket. */
  socket?: string;
}

/** What transports are made with. */
export interface TransportOptions {
  name: TransportName;
  interceptors: Interceptor[];
  readMaxBytes: number;
  tls: TlsOptions;
  keepaliveMs: number;
}

/** A transport to one server, and how its connection is closed. */
export interface Connection extends Route {
  close(): void;
}

/** Checks options, and makes a client with a connection to each server. */
export function clientOf(options: ConnectOptions, fallback: TransportName, open: (target: Target, options: TransportOptions) => Connection): Client {
  const { transport = fallback, timeoutMs = 60_000, streamTimeoutMs = 0, attempts = 4, maxAnswerBytes = 64 << 20, tls = false, token, interceptors = [] } = options;
  const { keepaliveMs = 0 } = options;
  if (!["grpc", "connect", "grpc-web"].includes(transport)) {
    throw mistake("INVALID_ARGUMENT", "transport", `expected grpc, connect or grpc-web, found '${String(transport)}'`);
  }
  checkInteger("attempts", attempts, 1, 5);
  checkInteger("timeoutMs", timeoutMs, 0, 2 ** 31 - 1);
  checkInteger("streamTimeoutMs", streamTimeoutMs, 0, 2 ** 31 - 1);
  checkInteger("keepaliveMs", keepaliveMs, 0, 2 ** 31 - 1);
  checkInteger("maxAnswerBytes", maxAnswerBytes, 1, 2 ** 32 - 1);
  const tell: Interceptor = (next) => async (request) => {
    const given = typeof token === "function" ? await token() : token;
    if (given) {
      request.header.set("authorization", `Bearer ${given}`);
    }
    request.header.set("user-agent", `xlashape-typescript/${VERSION}`); // browsers keep their own
    return next(request);
  };
  const made: TransportOptions = {
    name: transport,
    interceptors: [tell, ...interceptors],
    readMaxBytes: maxAnswerBytes,
    tls: typeof tls === "object" ? tls : {},
    keepaliveMs,
  };
  const connections = targetsOf(options).map((target) => open(target, made));
  const policy: Policy = { timeoutMs, streamTimeoutMs, attempts };
  return new Client(withPolicy(connections, policy), transport === "grpc", () => {
    connections.forEach((connection) => connection.close());
  });
}

function checkInteger(name: string, value: number, least: number, most: number): void {
  if (!Number.isInteger(value) || value < least || value > most) {
    throw mistake("INVALID_ARGUMENT", name, `expected an integer from ${least} to ${most}, found ${String(value)}`);
  }
}

function targetsOf({ address, baseUrl, tls }: ConnectOptions): Target[] {
  if ((address === undefined) === (baseUrl === undefined)) {
    throw mistake("INVALID_ARGUMENT", "address", "expected either address or baseUrl");
  }
  const field = address === undefined ? "baseUrl" : "address";
  const all = [address ?? baseUrl ?? []].flat();
  if (all.length === 0) {
    throw mistake("INVALID_ARGUMENT", field, "expected at least one server, found none");
  }
  return all.map((one) => {
    const unix = /^unix:(?:\/\/(?=\/))?(.+)$/.exec(one);
    if (address !== undefined && unix) {
      return { baseUrl: `${tls ? "https" : "http"}://localhost`, socket: unix[1]! };
    }
    const url = address === undefined ? one : `${tls ? "https" : "http"}://${one}`;
    const isWhole = address === undefined ? /^https?:\/\//.test(one) : /^(\[[0-9A-Fa-f:.]+\]|[^\s:/?#[\]@]+):\d{1,5}$/.test(one);
    if (!isWhole || !URL.canParse(url)) {
      throw mistake("INVALID_ARGUMENT", field, `expected ${address === undefined ? "a URL" : "HOST:PORT or unix:PATH"}, found '${String(one)}'`);
    }
    return { baseUrl: url.replace(/\/+$/, "") };
  });
}
