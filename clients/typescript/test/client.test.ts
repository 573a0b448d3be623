import assert from "node:assert/strict";
import { createReadStream, mkdtempSync, openAsBlob, readFileSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import * as http2 from "node:http2";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { after, test } from "node:test";

import { create } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { AnySchema, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { ConnectError, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";

import { connect as connectInBrowser } from "../src/browser.js";
import { errorOf } from "../src/errors.js";
import { type Client, Code, connect, type ConnectOptions, type ModuleSource, toJson, toNumbers, XlashapeError } from "../src/node.js";
import { HloService, LinearOrder, ShapeService } from "../src/schema.js";

const closing: (() => void)[] = [];
after(() => closing.forEach((close) => close()));

/** A server that answers as it is told, at a port of its own, or at a unix socket. */
async function serve(routes: (router: ConnectRouter) => void, path?: string): Promise<string> {
  const server = http2.createServer(connectNodeAdapter({ routes }));
  const sessions = new Set<http2.ServerHttp2Session>();
  server.on("session", (session) => sessions.add(session));
  await new Promise<void>((resolve) => (path ? server.listen(path, resolve) : server.listen(0, "127.0.0.1", resolve)));
  closing.push(() => {
    sessions.forEach((session) => session.destroy());
    server.close();
  });
  return path ? `unix:${path}` : `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function client(options: ConnectOptions): Client {
  const made = connect(options);
  closing.push(() => made.close());
  return made;
}

const sizes = (bytes: bigint) => ({ sizes: [{ physicalBytes: bytes }] });

async function failure(promise: Promise<unknown>): Promise<XlashapeError> {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof XlashapeError, String(error));
    return error;
  }
  throw new Error("expected an error");
}

/** A serialized google.rpc.ErrorInfo. */
function errorInfo(reason: string, domain: string, metadata: Record<string, string>): Uint8Array {
  const writer = new BinaryWriter().tag(1, WireType.LengthDelimited).string(reason).tag(2, WireType.LengthDelimited).string(domain);
  for (const [key, value] of Object.entries(metadata)) {
    writer.tag(3, WireType.LengthDelimited).fork().tag(1, WireType.LengthDelimited).string(key).tag(2, WireType.LengthDelimited).string(value).join();
  }
  return writer.finish();
}

function refusal(reason: string, metadata: Record<string, string>): ConnectError {
  const error = new ConnectError("the status", Code.InvalidArgument);
  error.details.push({ type: "google.rpc.BadRequest", value: new Uint8Array([0xff]) }, { type: "google.rpc.ErrorInfo", value: errorInfo(reason, "xlashape", metadata) });
  return error;
}

test("errors have the server's details", async () => {
  const error = errorOf(refusal("PARSE", { message: "expected a size", field: "shapes[0].text", line: "1", column: "5", source_line: "f32[?]" }));
  assert.equal(error.message, "shapes[0].text: line 1, column 5: expected a size (PARSE)");
  assert.deepEqual(
    [error.code, error.reason, error.rawMessage, error.field, error.line, error.column, error.details],
    [Code.InvalidArgument, "PARSE", "expected a size", "shapes[0].text", 1, 5, { source_line: "f32[?]" }],
  );
  assert.equal(JSON.parse(JSON.stringify(error)).code, "INVALID_ARGUMENT");
  assert.ok(error.cause instanceof ConnectError && error instanceof Error && error.name === "XlashapeError");
  const other = new ConnectError("no", Code.Canceled);
  other.details.push({ type: "google.rpc.ErrorInfo", value: errorInfo("QUOTA", "example.com", {}) }, { type: "google.rpc.ErrorInfo", value: new Uint8Array([10, 99]) });
  assert.deepEqual([errorOf(other).reason, errorOf(other).message], ["", "no (CANCELLED)"]);
});

test("a call over gRPC is refused with details", async () => {
  const address = await serve(({ service }) => service(ShapeService, {
    byteSize: () => {
      // The server's side takes messages as details; the name of a type is all that ErrorInfo needs here.
      const info = errorInfo("LIMIT_EXCEEDED", "xlashape", { limit: "max_batch", maximum: "3", value: "4" });
      const error = new ConnectError("too many", Code.ResourceExhausted);
      error.details.push({ type: "google.rpc.ErrorInfo", value: info });
      throw error;
    },
  }));
  const error = await failure(client({ address }).byteSize("f32[2]"));
  assert.deepEqual([error.code, error.reason, error.details], [Code.ResourceExhausted, "LIMIT_EXCEEDED", { limit: "max_batch", maximum: "3", value: "4" }]);
});

test("timeouts and signals", async () => {
  const address = await serve(({ service }) => service(ShapeService, {
    byteSize: (_, { signal }: HandlerContext) => new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  }));
  const patient = client({ address, timeoutMs: 0 });
  assert.equal((await failure(client({ address, timeoutMs: 50 }).byteSize("f32[]"))).code, Code.DeadlineExceeded);
  assert.equal((await failure(patient.byteSize("f32[]", { timeoutMs: 50 }))).code, Code.DeadlineExceeded);
  assert.equal((await failure(patient.byteSize("f32[]", { signal: AbortSignal.timeout(50) }))).code, Code.DeadlineExceeded);
  const controller = new AbortController();
  setTimeout(() => controller.abort("enough"), 50);
  const canceled = await failure(patient.byteSize("f32[]", { signal: controller.signal }));
  assert.deepEqual([canceled.code, canceled.cause], [Code.Canceled, "enough"]);
  assert.equal((await failure(patient.byteSize("f32[]", { signal: AbortSignal.abort() }))).code, Code.Canceled);
});

test("calls are sent again while the server is unavailable", async () => {
  let calls = 0;
  const address = await serve(({ service }) => {
    service(ShapeService, {
      byteSize: () => {
        if (++calls < 3) {
          throw new ConnectError("restarting", Code.Unavailable);
        }
        return sizes(96n);
      },
    });
    service(HloService, {
      deleteModule: () => {
        calls++;
        throw new ConnectError("the answer was lost", Code.Unavailable);
      },
    });
  });
  assert.equal((await client({ address }).byteSize("f32[]")).physicalBytes, 96n);
  assert.equal(calls, 3);
  calls = 0;
  assert.equal((await failure(client({ address, attempts: 1 }).byteSize("f32[]"))).code, Code.Unavailable);
  assert.equal(calls, 1);
  calls = 0;
  assert.equal((await failure(client({ address }).deleteModule("modules/0"))).code, Code.Unavailable);
  assert.equal(calls, 1);
});

test("a server that is down is asked last, and again after a while", async () => {
  const answering = await serve(({ service }) => service(ShapeService, { byteSize: () => sizes(1n) }));
  let tried = 0;
  const dead = createServer((socket) => {
    tried++;
    socket.destroy();
  });
  await new Promise<void>((resolve) => dead.listen(0, "127.0.0.1", resolve));
  closing.push(() => dead.close());
  const both = client({ address: [`127.0.0.1:${(dead.address() as AddressInfo).port}`, answering] });
  for (let i = 0; i < 50; i++) {
    await both.byteSize("f32[]");
  }
  assert.ok(tried >= 1 && tried < 25, String(tried)); // in turn it would be 25
});

test("a token may change with each call, and the client names itself", async () => {
  const seen: (string | null)[] = [];
  const address = await serve(({ service }) => service(ShapeService, {
    byteSize: (_, { requestHeader }: HandlerContext) => {
      seen.push(requestHeader.get("authorization"), requestHeader.get("user-agent"));
      return sizes(1n);
    },
  }));
  let number = 0;
  const asking = client({ address, token: async () => `token-${++number}` });
  await asking.byteSize("f32[]");
  await asking.byteSize("f32[]");
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };
  const agent = `xlashape-typescript/${version}`;
  assert.deepEqual(seen, ["Bearer token-1", agent, "Bearer token-2", agent]);
});

test("streams have a time of their own, and a client waits for its server", async () => {
  const address = await serve(({ service }) => {
    service(ShapeService, {
      byteSize: () => ({ sizes: [] }),
      async *linearIndices(requests) {
        for await (const { indices } of requests) {
          await new Promise((resolve) => setTimeout(resolve, 300));
          yield { positions: indices };
        }
      },
    });
  });
  const count = async (one: Client) => {
    let answers = 0;
    for await (const { positions } of one.shapes.linearIndices(async function* () { yield { indices: [1n, 2n] }; }())) {
      answers += positions.length / 2;
    }
    return answers;
  };
  assert.equal(await count(client({ address, timeoutMs: 200 })), 1);
  assert.equal((await failure(count(client({ address, streamTimeoutMs: 200 })))).code, Code.DeadlineExceeded);
  await client({ address }).waitUntilReady();
  const none = await failure(client({ address: "127.0.0.1:1" }).waitUntilReady({ timeoutMs: 2000 }));
  assert.equal(none.code, Code.Unavailable);
});

test("a connection that breaks is UNAVAILABLE, and the next call makes another", async () => {
  let calls = 0;
  const address = await serve(({ service }) => service(ShapeService, { byteSize: () => sizes(1n) }));
  const port = Number(address.split(":")[1]);
  const proxy = http2.createServer();
  proxy.on("stream", (stream, headers) => {
    if (++calls === 1) {
      stream.session?.destroy();
      stream.on("error", () => undefined);
      return;
    }
    const upstream = http2.connect(`http://127.0.0.1:${port}`).request({ ":method": "POST", ":path": headers[":path"], "content-type": "application/grpc", te: "trailers" }, {});
    stream.pipe(upstream);
    upstream.on("response", (answer) => stream.respond({ ":status": answer[":status"], "content-type": "application/grpc" }, { waitForTrailers: true }));
    upstream.on("trailers", (trailers) => stream.once("wantTrailers", () => stream.sendTrailers({ "grpc-status": String(trailers["grpc-status"]) })));
    upstream.pipe(stream);
    upstream.on("end", () => upstream.session?.close());
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  closing.push(() => proxy.close());
  const through = `127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const once = client({ address: through, attempts: 1 });
  assert.equal((await failure(once.byteSize("f32[]"))).code, Code.Unavailable);
  assert.equal((await once.byteSize("f32[]")).physicalBytes, 1n);
  calls = 0;
  assert.equal((await client({ address: through }).byteSize("f32[]")).physicalBytes, 1n);
  assert.equal(calls, 2);
});

test("several servers get calls in turn, and one that is down is passed over", async () => {
  const counts = [0, 0];
  const [first, second] = await Promise.all(counts.map((_, i) => serve(({ service }) => service(ShapeService, { byteSize: () => sizes(BigInt(++counts[i]!)) }))));
  const both = client({ address: [first!, second!] });
  for (let i = 0; i < 6; i++) {
    await both.byteSize("f32[]");
  }
  assert.deepEqual(counts, [3, 3]);
  const half = client({ address: ["127.0.0.1:1", first!] });
  for (let i = 0; i < 3; i++) {
    await half.byteSize("f32[]");
  }
});

test("unix sockets, tokens, URLs with a path", async () => {
  const seen: (string | null)[] = [];
  const routes = ({ service }: ConnectRouter) => service(ShapeService, {
    byteSize: (_, { requestHeader }: HandlerContext) => {
      seen.push(requestHeader.get("authorization"));
      return sizes(7n);
    },
  });
  const path = join(mkdtempSync(join(tmpdir(), "xlashape-")), "socket");
  const address = await serve(routes, path);
  assert.equal((await client({ address }).byteSize("f32[]")).physicalBytes, 7n);
  assert.equal((await client({ address: `unix://${path}`, token: "secret" }).byteSize("f32[]")).physicalBytes, 7n);
  const other = await serve(routes);
  assert.equal((await client({ baseUrl: `http://${other}/`, token: "secret" }).byteSize("f32[]")).physicalBytes, 7n);
  assert.deepEqual(seen, [null, "Bearer secret", "Bearer secret"]);
});

test("an answer that is too large is refused", async () => {
  const address = await serve(({ service }) => service(ShapeService, { linearIndex: () => ({ positions: new Array<bigint>(1000).fill(1n) }) }));
  const error = await failure(client({ address, maxAnswerBytes: 4000 }).linearIndices("f32[2]", [1]));
  assert.equal(error.code, Code.ResourceExhausted, error.message);
});

test("pages are fetched as they are needed", async () => {
  const tokens: string[] = [];
  const address = await serve(({ service }) => service(HloService, {
    listInstructions: ({ pageToken }) => {
      tokens.push(pageToken);
      return { instructions: [{ name: `a${pageToken}` }, { name: `b${pageToken}` }], nextPageToken: tokens.length < 3 ? String(tokens.length) : "" };
    },
  }));
  const names: string[] = [];
  for await (const { name } of client({ address }).listInstructions({ module: { name: "modules/0" } })) {
    names.push(name);
  }
  assert.deepEqual(names, ["a", "b", "a1", "b1", "a2", "b2"]);
  for await (const { name } of client({ address }).listInstructions({ module: { name: "modules/0" } })) {
    assert.equal(name, "a");
    break;
  }
  assert.deepEqual(tokens, ["", "1", "2", ""]);
});

test("options that are wrong", () => {
  const wrong: [object, string][] = [
    [{}, "address"], [{ address: "a:1", baseUrl: "http://a" }, "address"], [{ address: [] }, "address"], [{ address: "localhost" }, "address"],
    [{ address: "http://localhost:1" }, "address"], [{ address: "a:99999" }, "address"], [{ address: "" }, "address"], [{ baseUrl: "localhost:1" }, "baseUrl"],
    [{ address: "a:1", attempts: 0 }, "attempts"], [{ address: "a:1", attempts: 6 }, "attempts"], [{ address: "a:1", timeoutMs: -1 }, "timeoutMs"],
    [{ address: "a:1", transport: "http" }, "transport"], [{ address: "a:1", maxAnswerBytes: 0 }, "maxAnswerBytes"],
  ];
  for (const [options, field] of wrong) {
    assert.throws(() => connect(options), (error: unknown) => error instanceof XlashapeError && error.field === field && error.code === Code.InvalidArgument);
  }
  for (const [options, field] of [[{ address: "a:1", transport: "grpc" }, "transport"], [{ address: "unix:/a" }, "address"], [{ address: "a:1", tls: { ca: "" } }, "tls"]] as const) {
    assert.throws(() => connectInBrowser(options), (error: unknown) => error instanceof XlashapeError && error.field === field);
  }
  for (const address of ["[::1]:50051", "host.example:443", "unix:relative", ["a:1", "b:2"]]) {
    connect({ address }).close();
  }
});

test("what is asked has to have the right type", async () => {
  const one = client({ address: "127.0.0.1:1" });
  assert.equal((await failure(one.byteSize(5 as never))).field, "shape");
  assert.equal((await failure(one.linearIndex("f32[2]", [0.5]))).field, "indices[0]");
  assert.equal((await failure(one.linearIndices("f32[2]", [0, 2 ** 60]))).field, "indices[1]");
  assert.equal((await failure(one.linearIndices("f32[2]", ["1" as never]))).field, "indices[0]");
  await assert.rejects(one.listInstructions({ module: {} as never }).next(), /expected \{ module: … \} with name, serialized or text/);
  await assert.rejects(one.listInstructions({ name: "modules/1" } as never).next(), /expected \{ module: … \}/);
  const address = await serve(({ service }) => service(ShapeService, { linearIndex: () => ({}) }));
  const wrong = await failure(client({ address }).shapes.linearIndex({ indices: ["x" as never] }));
  assert.equal(wrong.code, Code.InvalidArgument);
});

test("JSON", async () => {
  const address = await serve(({ service }) => service(ShapeService, { byteSize: () => ({ sizes: [{ byteSize: 2n ** 62n }] }) }));
  const size = await client({ address }).byteSize("f32[]");
  assert.deepEqual(toJson(size), { byteSize: "4611686018427387904" });
  assert.throws(() => JSON.stringify(size), TypeError);
  assert.throws(() => toJson(create(FileDescriptorProtoSchema)), XlashapeError);
  assert.throws(() => toJson(create(AnySchema)), XlashapeError);
  assert.deepEqual(toNumbers(BigInt64Array.of(1n, -2n)), [1, -2]);
  assert.throws(() => toNumbers([2n ** 53n]), (error: unknown) => error instanceof XlashapeError && error.reason === "SIZE_OVERFLOW");
  assert.equal(LinearOrder.LOGICAL, 2);
});

test("a module is sent while it is read", async () => {
  const received: Uint8Array[] = [];
  let isRefused = false;
  const address = await serve(({ service }) => service(HloService, {
    uploadModule: async (parts) => {
      let moreFollows = false;
      for await (const part of parts) {
        if (isRefused) {
          throw refusal("LIMIT_EXCEEDED", { message: "too large" });
        }
        ({ moreFollows } = part);
        if (part.data.length > 0) {
          received.push(part.data);
        }
      }
      assert.ok(!moreFollows);
      return { module: { name: "modules/1" } };
    },
  }));
  const asked = client({ address });
  const content = Buffer.alloc(2_500_000, "0123456789");
  const file = join(mkdtempSync(join(tmpdir(), "xlashape-")), "module");
  writeFileSync(file, content);
  const sources: ModuleSource[] = [createReadStream(file), await openAsBlob(file), new Blob([content]).stream(), Readable.from([content])];
  for (const source of sources) {
    const told: number[] = [];
    const { module, sent } = await asked.uploadModuleFrom(source, { onProgress: (bytes) => told.push(bytes) });
    assert.deepEqual([module.name, sent, told.at(-1)], ["modules/1", true, content.length]);
    assert.ok(told.length === received.length && told.every((bytes, i) => i === 0 || bytes > told[i - 1]!));
    assert.ok(received.every((part) => part.length <= 1 << 20) && Buffer.concat(received).equals(content));
    received.length = 0;
  }

  // The source is asked no faster than the server reads, and closed when the call ends.
  let isClosed = false;
  let read = 0;
  const endless = async function* () {
    try {
      for (;;) {
        read += content.length;
        yield content;
      }
    } finally {
      isClosed = true;
    }
  };
  isRefused = true;
  assert.equal((await failure(asked.uploadModuleFrom(endless()))).reason, "LIMIT_EXCEEDED");
  for (let i = 0; i < 100 && !isClosed; i++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.ok(isClosed && read < 100 * content.length, String(read));

  // A source that fails ends the call.
  isRefused = false;
  const broken = async function* () {
    yield content;
    throw new RangeError("the disk is gone");
  };
  await assert.rejects(asked.uploadModuleFrom(broken()), new RangeError("the disk is gone"));
  const { length } = received;
  await assert.rejects(asked.uploadModuleFrom(Readable.from([content]), { onProgress: () => { throw new RangeError("enough"); } }), /enough/);
  assert.ok(received.length <= length + 2);
});

test("a module is sent in one message where requests cannot be streams", async () => {
  let received: Uint8Array | undefined;
  const server = createHttpServer(connectNodeAdapter({
    routes: ({ service }) => service(HloService, {
      putModule: ({ data }) => {
        received = data;
        return { module: { name: "modules/1" } };
      },
    }),
  }));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => server.close());
  const told: number[] = [];
  const asked = client({ baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, transport: "connect" });
  await asked.uploadModuleFrom(new Blob(["HloModule ", "m"]), { onProgress: (bytes) => told.push(bytes) });
  assert.deepEqual([Buffer.from(received!).toString(), told], ["HloModule m", [11]]);
  const error = await failure(asked.uploadModuleFrom(new Blob(["HloModule ", "m"]), { maxBytes: 10 }));
  assert.deepEqual([error.code, error.reason], [Code.ResourceExhausted, "LIMIT_EXCEEDED"]);
  assert.equal(error.rawMessage, "expected at most 10 bytes in one message, found more");
});
