/** The testee of the TypeScript client: it does what tests/conformance/run.py asks, and tells how it ended. */

import { clone, create, createFileRegistry, type DescMessage, type DescMethod, type DescMethodStreaming, type DescMethodUnary, fromBinary, type Message, toBinary, toJson } from "@bufbuild/protobuf";
import { sizeDelimitedEncode } from "@bufbuild/protobuf/wire";
import { FieldDescriptorProto_Label as Label, FieldDescriptorProto_Type as Type, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";

import type { CallOptions } from "../src/calls.js";
import type { Client } from "../src/client.js";
import { bytesOf, integersOf } from "../src/integers.js";
import { evaluateMap, linearIndices, multiIndices } from "../src/packed.js";
import { connect, EvaluableMap, XlashapeError } from "../src/node.js";
import * as schema from "../src/schema.js";
import {
  type Bulk, BulkSchema, type Call, type Evaluation, file_testee, type Pages, type Request, RequestSchema, type Response, ResponseSchema, type Start, Transport,
} from "./gen/testee_pb.js";

const TRANSPORTS = { [Transport.GRPC]: "grpc", [Transport.CONNECT]: "connect" } as const;
const SERVICES = new Map([schema.ShapeService, schema.HloService, schema.IndexingService, schema.ReportService, schema.ViewService].map((service) => [service.name, service]));

let client: Client | undefined;
let tokenOfNow = "";

async function answer(request: Request): Promise<Response> {
  const response = create(ResponseSchema);
  try {
    await act(request, response);
  } catch (error) {
    if (error instanceof XlashapeError) {
      const { code, reason, rawMessage, field, line, column, details } = error;
      response.error = { $typeName: "xlashape.conformance.Error", code, reason, message: rawMessage, field, line, column, details: { ...details } };
    } else {
      response.failure = error instanceof Error ? (error.stack ?? error.message) : String(error);
    }
  }
  return response;
}

async function act({ action }: Request, response: Response): Promise<void> {
  switch (action.case) {
    case "start":
      client?.close();
      client = started(action.value);
      return;
    case "call":
      return call(action.value, response);
    case "evaluation":
      return evaluate(action.value, response);
    case "upload": {
      const failure = new Error("the reader failed");
      const { content, readBytes } = action.value;
      const pieces = async function* () {
        for (let at = 0; at < content.length; at += readBytes) {
          yield await Promise.resolve(content.subarray(at, at + readBytes));
        }
        if (action.value.readerFails) {
          throw failure;
        }
      };
      const upload = readBytes === 0 ? client!.uploadModule(content)
        : client!.uploadModuleFrom(pieces(), { onProgress: (told) => response.progress.push(BigInt(told)) });
      const done = await upload.catch((error: unknown) => {
        response.readerFailed = error === failure;
        return response.readerFailed ? undefined : Promise.reject(error as Error);
      });
      if (done === undefined) {
        return;
      }
      const { module, sent } = done;
      response.sent = sent;
      response.answers.push(toBinary(schema.ModuleSchema, module));
      return;
    }
    case "pages":
      return pages(action.value, response);
    case "bulk":
      return bulk(action.value, response);
    case undefined:
      throw new Error("a request without an action");
  }
}

function started({ address, transport, rootCertificates, token, clientCertificate, clientKey, moreAddresses }: Start): Client {
  const name = TRANSPORTS[transport as keyof typeof TRANSPORTS];
  tokenOfNow = token;
  return connect({
    address: [address, ...moreAddresses], token: () => tokenOfNow, transport: name,
    maxAnswerBytes: 4 << 20, // what gRPC receives by default has to do
    ...(rootCertificates.length > 0 ? { tls: { ca: rootCertificates, ...(clientKey.length > 0 ? { cert: clientCertificate, key: clientKey } : {}) } } : {}),
  });
}

/** Makes a call of any RPC. */
async function call({ rpc, requests, timeoutMs, keepOpen, stopAfter, cancelAfterMs, token }: Call, response: Response): Promise<void> {
  const [service = "", name = ""] = rpc.split("/");
  const method = SERVICES.get(service)!.methods.find((one) => one.name === name)!;
  const messages = requests.map((bytes) => fromBinary(method.input as DescMessage, bytes));
  const { transport } = client!;
  const limit = timeoutMs > 0n ? Number(timeoutMs) : undefined;
  tokenOfNow = token || tokenOfNow;
  const cancelled = new AbortController();
  const { signal } = cancelled;
  if (cancelAfterMs > 0n) {
    setTimeout(() => cancelled.abort(), Number(cancelAfterMs));
  }
  const found = await asked(rpc, method, messages[0], { signal, ...(limit !== undefined && { timeoutMs: limit }) });
  if (found) {
    response.answers.push(toBinary(method.output as DescMessage, found));
    return;
  }
  response.below = true;
  if ((method.methodKind as string) === "unary") {
    const { message } = await transport.unary(method as DescMethodUnary, signal, limit, undefined, messages[0] as never);
    response.answers.push(toBinary(method.output, message));
    return;
  }
  const sent = async function* () {
    yield* messages;
    if (keepOpen) {
      await new Promise<never>(() => {});
    }
  };
  const answers = await transport.stream(method as DescMethodStreaming, signal, limit, undefined, sent() as never);
  for await (const message of answers.message) {
    response.answers.push(toBinary(method.output as DescMessage, message as Message));
    if (stopAfter > 0 && response.answers.length >= stopAfter) {
      return;
    }
  }
}

/** The answer by the client's methods of the RPC's name; undefined if none of them sends this request. */
async function asked(rpc: string, method: DescMethod, message: Message | undefined, options: CallOptions): Promise<Message | undefined> {
  const made = (fields: Record<string, unknown>) => create(method.output as DescMessage, fields);
  const fields = message && Object.keys(toJson(method.input as DescMessage, message) as object).sort().join();
  switch (rpc) {
    case "ShapeService/DescribeShape": {
      const { shapes } = message as schema.DescribeShapeRequest;
      return made({ descriptions: shapes.length === 1 ? [await client!.describeShape(shapes[0]!, options)] : await client!.describeShapes(shapes, options) });
    }
    case "ShapeService/ByteSize": {
      const { shapes, pointerSize } = message as schema.ByteSizeRequest;
      return pointerSize !== 0n ? undefined
        : made({ sizes: shapes.length === 1 ? [await client!.byteSize(shapes[0]!, options)] : await client!.byteSizes(shapes, options) });
    }
    case "ShapeService/LinearIndex": {
      const { shape, indices, count } = message as schema.LinearIndexRequest;
      return count === 1n ? made({ positions: [await client!.linearIndex(shape!, indices, options)] }) : undefined;
    }
    case "ShapeService/MultiIndex": {
      const { shape, positions } = message as schema.MultiIndexRequest;
      const index = await client!.multiIndex(shape!, positions[0]!, options);
      return made({ indices: index ?? [], isElement: [index !== undefined] });
    }
    case "HloService/GetModule": {
      const { name } = message as schema.GetModuleRequest;
      const content = fields === "includeContent,name" ? await client!.downloadModule(name, options) : new Uint8Array();
      return fields === "name" || content.length > 0 ? made({ module: await client!.getModule(name, options), content }) : undefined;
    }
    case "HloService/PutModule": {
      const { data, sha256 } = message as schema.PutModuleRequest;
      if (sha256 !== "") {
        return undefined;
      }
      const { module, sent } = await client!.uploadModule(data, options);
      return made({ module, alreadyPresent: !sent });
    }
    case "HloService/DeleteModule":
      await client!.deleteModule((message as schema.DeleteModuleRequest).name, options);
      return made({});
    case "IndexingService/ParseMap": {
      const { maps } = message as schema.ParseMapRequest;
      return fields === "maps" && maps.length === 1 ? made({ maps: [await client!.parseMap(maps[0]!, options)] }) : undefined;
    }
    case "IndexingService/SimplifyMap": {
      const { maps } = message as schema.SimplifyMapRequest;
      return fields === "maps" && maps.length === 1 ? made({ maps: [{ map: await client!.simplifyMap(maps[0]!, options) }] }) : undefined;
    }
    case "IndexingService/ComposeMaps": {
      const { chains } = message as schema.ComposeMapsRequest;
      return fields === "chains" && chains.length === 1 ? made({ maps: [await client!.composeMaps(chains[0]!.maps, options)] }) : undefined;
    }
  }
  const request = publicRequest(method, message);
  const ask = client![method.localName as "cost"] as (request: never, options: CallOptions) => Promise<Message>;
  return request && ask.call(client, request as never, options);
}

/** The request as the client's method of the RPC's name takes it; undefined if that does not return the answer, or takes no request without a subject. */
function publicRequest(method: DescMethod, message: Message | undefined): object | undefined {
  if (!["ReportService", "ViewService"].includes(method.parent.name) && method.name !== "IndexingMaps") {
    return undefined;
  }
  const { module, subject, ...rest } = message as Message & { module?: schema.ModuleInput; subject?: { case?: string; value?: unknown } };
  if (subject) {
    const value = subject.case === "module" ? moduleOf(subject.value as schema.ModuleInput) : subject.value;
    return subject.case === undefined ? undefined : { ...rest, [subject.case]: value };
  }
  return !("module" in method.input.field) ? rest : !module?.source.case ? undefined : { ...rest, module: moduleOf(module) };
}

async function evaluate({ map, points, count, batch }: Evaluation, response: Response): Promise<void> {
  const message = map.case === "text" ? (await client!.parseMap(map.value)).map! : fromBinary(schema.IndexingMapSchema, map.value!);
  const results: bigint[] = [];
  const inDomain: boolean[] = [];
  if (batch || !message.fitsInt64) {
    const all = message.fitsInt64 ? new EvaluableMap(message).evaluateBatch(points, count) : await client!.evaluateMap(message, points);
    results.push(...all.results);
    inDomain.push(...all.inDomain);
  } else {
    const made = new EvaluableMap(message);
    const width = points.length / count;
    for (let i = 0; i < count; i++) {
      const one = made.evaluate(points.slice(i * width, (i + 1) * width));
      results.push(...(one ?? new Array<bigint>(made.resultCount).fill(0n)));
      inDomain.push(one !== undefined);
    }
  }
  response.answers.push(toBinary(schema.EvaluateMapResponseSchema, create(schema.EvaluateMapResponseSchema, { results, inDomain })));
}

async function pages({ rpc, request }: Pages, response: Response): Promise<void> {
  if (rpc === "HloService/ListInstructions") {
    const { module, ...rest } = fromBinary(schema.ListInstructionsRequestSchema, request);
    for await (const item of client!.listInstructions({ ...rest, module: moduleOf(module) })) {
      response.answers.push(toBinary(schema.InstructionSchema, item));
    }
  } else {
    const { subject, ...rest } = fromBinary(schema.SizeRequestSchema, request);
    for await (const row of client!.sizeRows({ ...rest, module: moduleOf(subject.value as schema.ModuleInput) })) {
      response.answers.push(toBinary(schema.SizeRowSchema, row));
    }
  }
}

function moduleOf(input: schema.ModuleInput | undefined): { name: string } {
  return { [input!.source.case!]: input!.source.value } as { name: string };
}

async function bulk({ rpc, request, numbers }: Bulk, response: Response): Promise<void> {
  const integers = integersOf(new Uint8Array(numbers as unknown as Uint8Array)); // see `bulky` below
  switch (rpc) {
    case "ShapeService/LinearIndices": {
      const { shape, order } = fromBinary(schema.LinearIndicesRequestSchema, request);
      const positions = await client!.linearIndices(shape!, integers, { order });
      response.answers.push(toBinary(linearIndices.output, packed("LinearIndexResponse", { positions: bytesOf(positions) })));
      return;
    }
    case "ShapeService/MultiIndices": {
      const { shape, order } = fromBinary(schema.MultiIndicesRequestSchema, request);
      const { indices, isElement } = await client!.multiIndices(shape!, integers, { order });
      response.answers.push(toBinary(multiIndices.output, packed("MultiIndexResponse", { indices: bytesOf(indices), isElement })));
      return;
    }
    default: {
      const { map } = fromBinary(schema.EvaluateMapBatchRequestSchema, request);
      const { results, inDomain } = await client!.evaluateMap(map!, integers);
      response.answers.push(toBinary(evaluateMap.output, packed("EvaluateMapResponse", { results: bytesOf(results), inDomain })));
    }
  }
}

function packed(name: string, fields: Record<string, unknown>): Message {
  return { $typeName: `xlashape.v1.${name}`, ...fields };
}

/** RequestSchema whose Bulk.numbers are bytes, which are the same on the wire: sixteen million bigints take much memory. */
function bulky(): typeof RequestSchema {
  const proto = clone(FileDescriptorProtoSchema, file_testee.proto);
  const numbers = proto.messageType.find(({ name }) => name === BulkSchema.name)!.field.find(({ name }) => name === "numbers")!;
  numbers.type = Type.BYTES;
  numbers.label = Label.OPTIONAL;
  return createFileRegistry(proto, () => undefined).getMessage(RequestSchema.typeName) as typeof RequestSchema;
}

/** Messages of standard input, each after its size as a varint. */
async function* requests(): AsyncGenerator<Request> {
  const kind = bulky();
  let parts: Buffer[] = [];
  let held = 0;
  let head: { start: number; end: number } | undefined;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    parts.push(chunk);
    held += chunk.length;
    for (;;) {
      if (!head) {
        parts = [Buffer.concat(parts)];
        head = headOf(parts[0]!);
      }
      if (!head || held < head.end) {
        break;
      }
      const all: Buffer = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
      yield fromBinary(kind, all.subarray(head.start, head.end));
      parts = [all.subarray(head.end)];
      held -= head.end;
      head = undefined;
    }
  }
}

/** Where the message begins and ends whose size `bytes` begin with; undefined if the size is not complete. */
function headOf(bytes: Uint8Array): { start: number; end: number } | undefined {
  let size = 0;
  for (let i = 0; i < bytes.length; i++) {
    size += (bytes[i]! & 0x7f) * 2 ** (7 * i);
    if (bytes[i]! < 0x80) {
      return { start: i + 1, end: i + 1 + size };
    }
  }
  return undefined;
}

for await (const request of requests()) {
  const response = await answer(request);
  await new Promise<void>((resolve, reject) => {
    process.stdout.write(sizeDelimitedEncode(ResponseSchema, response), (error) => (error ? reject(error) : resolve()));
  });
}
client?.close();
