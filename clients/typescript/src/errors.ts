/** What a call was refused with, or why it did not reach the server. */

import { Code, ConnectError } from "@connectrpc/connect";

import { ErrorInfoSchema } from "./error-info.js";

export { Code };

/** The domain of the server's google.rpc.ErrorInfo. */
const DOMAIN = "xlashape";

/** The parts of an {@link XlashapeError}, all but the code optional. */
export type ErrorParts = Pick<XlashapeError, "code">
  & Partial<Pick<XlashapeError, "reason" | "rawMessage" | "field" | "line" | "column" | "details" | "cause">>;

/**
 * Every error of a call, of a connection, and of a map that is evaluated here.
 *
 * ```ts
 * try {
 *   await client.byteSize("f32[3,5");
 * } catch (error) {
 *   if (error instanceof XlashapeError && error.reason === "PARSE") {
 *     console.log(error.line, error.column);
 *   }
 * }
 * ```
 *
 * `message` holds field, line and column too; `rawMessage` is the sentence alone.
 */
export class XlashapeError extends Error {
  override readonly name = "XlashapeError";
  /** The status of the call: `Code.InvalidArgument`, `Code.NotFound`, `Code.ResourceExhausted`, `Code.DeadlineExceeded`, `Code.Unavailable`, … */
  readonly code!: Code;
  /**
   * The server's name for what is wrong: `PARSE`, `INVALID_INDEX`, `NOT_FOUND`, `LIMIT_EXCEEDED`, … Empty if the error does not come from xlashape,
   * but from the transport or from a proxy.
   */
  readonly reason!: string;
  /** What is wrong, in a sentence. */
  readonly rawMessage!: string;
  /** The path of the wrong field in the request, such as `shapes[3].text`. Empty if no field is to blame. */
  readonly field!: string;
  /** The line where text is wrong, from 1. 0 if the mistake is not in text. */
  readonly line!: number;
  /** The column where text is wrong, from 1, in characters. 0 if the mistake is not in text. */
  readonly column!: number;
  /** All other details by name: `limit`, `maximum` and `value` of an exceeded limit, `kind` and `name` of what was not found, … */
  readonly details!: Readonly<Record<string, string>>;

  constructor(parts: ErrorParts) {
    const { code, reason = "", rawMessage = "", field = "", line = 0, column = 0, details = {} } = parts;
    const where = (field && `${field}: `) + (line > 0 ? `line ${line}, column ${column}: ` : "");
    super(`${where}${rawMessage} (${reason || nameOf(code)})`, "cause" in parts ? { cause: parts.cause } : undefined);
    Object.assign(this, { code, reason, rawMessage, field, line, column, details });
  }

  /** What `JSON.stringify` writes. */
  toJSON(): Record<string, unknown> {
    const { reason, rawMessage, field, line, column, details } = this;
    return { code: nameOf(this.code), reason, message: rawMessage, field, line, column, details };
  }
}

/** The name that gRPC gives a code: `INVALID_ARGUMENT`. */
function nameOf(code: Code): string {
  return (Code[code] ?? `CODE_${code}`).replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase().replace("CANCELED", "CANCELLED");
}

/** An error that the client finds by itself. */
export function mistake(reason: string, field: string, rawMessage: string, code = Code.InvalidArgument): XlashapeError {
  return new XlashapeError({ code, reason, field, rawMessage });
}

/** Throws such an error unless `holds`. */
export function check(holds: boolean, reason: string, field: string, rawMessage: string, code?: Code): asserts holds {
  if (!holds) {
    throw mistake(reason, field, rawMessage, code);
  }
}

/** The error of a call. `signal` is the caller's own; `isOver` says whether the time of the call has passed. */
export function errorOf(cause: unknown, signal?: AbortSignal, isOver = false): XlashapeError {
  if (cause instanceof XlashapeError) {
    return cause;
  }
  const error = ConnectError.from(cause);
  const info = error.findDetails(ErrorInfoSchema).find(({ domain }) => domain === DOMAIN);
  const { message = error.rawMessage, field = "", line = 0, column = 0, ...details } = info?.metadata ?? {};
  return new XlashapeError({
    code: info ? error.code : codeOf(error, signal, isOver),
    reason: info?.reason ?? "",
    rawMessage: message,
    field,
    line: Number(line),
    column: Number(column),
    details,
    cause: !info && signal?.aborted ? signal.reason : cause,
  });
}

function codeOf(error: ConnectError, signal: AbortSignal | undefined, isOver: boolean): Code {
  if (signal?.aborted) {
    return (signal.reason as { name?: unknown } | undefined)?.name === "TimeoutError" ? Code.DeadlineExceeded : Code.Canceled;
  }
  if (error.code === Code.Canceled) {
    // A server ends a call whose time is over by a reset of its stream, which may come before the client's own timer. A reset of another cause is a
    // connection that broke.
    return isOver ? Code.DeadlineExceeded : error.rawMessage.startsWith("http/2 stream closed") ? Code.Unavailable : error.code;
  }
  // Node's own errors have a text as their code: ECONNRESET, ERR_HTTP2_STREAM_ERROR, DEPTH_ZERO_SELF_SIGNED_CERT, …
  const isOfNode = typeof (error.cause as { code?: unknown } | undefined)?.code === "string";
  if (isOfNode && [Code.Internal, Code.Aborted, Code.Unknown].includes(error.code)) {
    return Code.Unavailable;
  }
  return error.code === Code.Internal && error.rawMessage.startsWith("serialize ") ? Code.InvalidArgument : error.code;
}
