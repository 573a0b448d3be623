/** How a client connects, and what holds for single calls. */

import type { Interceptor } from "@connectrpc/connect";

import { type Route, withPolicy } from "./calls.js";
import { Client } from "./client.js";
import { check } from "./errors.js";
import { type Settings, settingsOf } from "./settings.js";

/** The version of this package. */
export const VERSION = "0.1.0";

/** How to speak to a server. Browsers speak `connect`. */
export type TransportName = "grpc" | "connect";

/** What `connect` is told. Exactly one of `address` and `baseUrl` is given; in a browser none of them stands for the server of the page. */
export interface ConnectOptions extends Settings {
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

/** What a transport is made with. */
export interface TransportOptions extends Target {
  name: TransportName;
  interceptors: Interceptor[];
  settings: Required<Settings>;
  tls: TlsOptions;
}

/** Checks options, and makes a client with a connection to each server. */
export function clientOf(
  options: ConnectOptions, fallback: TransportName, open: (options: TransportOptions) => Route,
): Client {
  const { transport = fallback, tls = false, token, interceptors = [] } = options;
  const settings = settingsOf(options);
  const isKnown = ["grpc", "connect"].includes(transport);
  check(isKnown, "INVALID_ARGUMENT", "transport", `expected grpc or connect, found '${String(transport)}'`);
  const tell: Interceptor = (next) => async (request) => {
    const given = typeof token === "function" ? await token() : token;
    if (given) {
      request.header.set("authorization", `Bearer ${given}`);
    }
    request.header.set("user-agent", `xlashape-typescript/${VERSION}`); // browsers keep their own
    return next(request);
  };
  const made = { name: transport, interceptors: [tell, ...interceptors], settings, tls: typeof tls === "object" ? tls : {} };
  const routes = targetsOf(options).map((target) => open({ ...target, ...made }));
  const hasStreams = transport === "grpc";
  return new Client(withPolicy(routes, settings, hasStreams), hasStreams, () => routes.forEach((route) => route.close()));
}

function targetsOf({ address, baseUrl, tls }: ConnectOptions): Target[] {
  const message = "expected either address or baseUrl";
  check((address === undefined) !== (baseUrl === undefined), "INVALID_ARGUMENT", "address", message);
  const [field, form, what] = address === undefined
    ? ["baseUrl", /^https?:\/\//, "a URL"] as const
    : ["address", /^(\[[0-9A-Fa-f:.]+\]|[^\s:/?#[\]@]+):\d{1,5}$/, "HOST:PORT or unix:PATH"] as const;
  const all = [address ?? baseUrl ?? []].flat();
  check(all.length > 0, "INVALID_ARGUMENT", field, "expected at least one server, found none");
  const scheme = tls ? "https" : "http";
  return all.map((one) => {
    const unix = address !== undefined && /^unix:(?:\/\/(?=\/))?(.+)$/.exec(one);
    if (unix) {
      return { baseUrl: `${scheme}://localhost`, socket: unix[1]! };
    }
    const url = address === undefined ? one : `${scheme}://${one}`;
    const isWhole = form.test(one) && URL.canParse(url);
    check(isWhole, "INVALID_ARGUMENT", field, `expected ${what}, found '${String(one)}'`);
    return { baseUrl: url.replace(/\/+$/, "") };
  });
}
