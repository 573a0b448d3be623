/**
 * The RPCs about many integers, with `bytes` instead of `repeated sfixed64`: both are the same on the wire, and bytes become a BigInt64Array without a
 * bigint for each number.
 */

import { clone, createFileRegistry, type DescFile, type DescMethod, type DescMethodBiDiStreaming, type DescMethodUnary, type Message } from "@bufbuild/protobuf";
import { FieldDescriptorProto_Label as Label, FieldDescriptorProto_Type as Type, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";

/** A question about many integers: one message, and a stream of them both ways. */
export interface PackedQuestion {
  unary: DescMethodUnary;
  stream: DescMethodBiDiStreaming;
}

/** A message whose numbers are bytes. */
export type PackedMessage = Message & Record<string, unknown>;

/** Makes a question of two RPCs of a file when it is first asked: a program that only asks small questions does not need it. */
export function packedQuestion(file: DescFile, unary: string, stream: string): () => PackedQuestion {
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
