/**
 * The RPCs about many integers, with `bytes` instead of `repeated sfixed64`: both are the same on the wire, and bytes become a BigInt64Array without a
 * bigint for each number.
 */

import { clone, createFileRegistry, type DescFile, type DescMethod, type DescMethodBiDiStreaming, type DescMethodUnary, type Message } from "@bufbuild/protobuf";
import { FieldDescriptorProto_Label as Label, FieldDescriptorProto_Type as Type, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";

import { file_xlashape_v1_indexing_service } from "./gen/xlashape/v1/indexing_service_pb.js";
import { file_xlashape_v1_shape_service } from "./gen/xlashape/v1/shape_service_pb.js";

/** A question about many integers: one message, and a stream of them both ways. */
export interface PackedQuestion {
  unary: DescMethodUnary;
  stream: DescMethodBiDiStreaming;
}

/** A message whose numbers are bytes. */
export type PackedMessage = Message & Record<string, unknown>;

export const linearIndices = question(file_xlashape_v1_shape_service, "LinearIndex", "LinearIndices");
export const multiIndices = question(file_xlashape_v1_shape_service, "MultiIndex", "MultiIndices");
export const evaluateMap = question(file_xlashape_v1_indexing_service, "EvaluateMap", "EvaluateMapBatch");

/** Made when it is first asked: a program that only asks small questions does not need it. */
function question(file: DescFile, unary: string, stream: string): () => PackedQuestion {
  let made: PackedQuestion | undefined;
  return () => (made ??= packed(file, unary, stream));
}

function packed(file: DescFile, unary: string, stream: string): PackedQuestion {
  const proto = clone(FileDescriptorProtoSchema, file.proto);
  const wanted = new Set([unary, stream].flatMap((name) => [`${name}Request`, `${name}Response`]));
  for (const message of proto.messageType.filter(({ name }) => wanted.has(name))) {
    for (const field of message.field.filter(({ type, label }) => type === Type.SFIXED64 && label === Label.REPEATED)) {
      field.type = Type.BYTES;
      field.label = Label.OPTIONAL;
    }
  }
  const registry = createFileRegistry(proto, (name) => file.dependencies.find((dependency) => `${dependency.name}.proto` === name));
  const methods: DescMethod[] = [...registry].flatMap((found) => (found.kind === "service" ? found.methods : []));
  const named = (name: string) => methods.find((method) => method.name === name);
  return { unary: named(unary) as DescMethodUnary, stream: named(stream) as DescMethodBiDiStreaming };
}
