/**
 * The RPCs about many integers, with `bytes` instead of `repeated sfixed64`: both are the same on the wire, and bytes become a BigInt64Array without a
 * bigint for each number.
 */

import { clone, createFileRegistry, type DescMethodBiDiStreaming, type DescMethodUnary, type DescService, type Message } from "@bufbuild/protobuf";
import { FieldDescriptorProto_Label as Label, FieldDescriptorProto_Type as Type, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";

/** A question about many integers: one message, and a stream of them both ways. */
export interface PackedQuestion {
  unary: DescMethodUnary;
  stream: DescMethodBiDiStreaming;
}

/** A message whose numbers are bytes. */
export type PackedMessage = Message & Record<string, unknown>;

/** Makes a question of two RPCs of a service when it is first asked: a program that only asks small questions does not need it. */
export function packedQuestion(service: DescService, unary: string, stream: string): () => PackedQuestion {
  let made: PackedQuestion | undefined;
  return () => (made ??= packed(service, unary, stream));
}

function packed({ file, method, typeName }: DescService, unary: string, stream: string): PackedQuestion {
  const proto = clone(FileDescriptorProtoSchema, file.proto);
  const wanted = new Set([unary, stream].flatMap((name) => [method[name]!.input.name, method[name]!.output.name]));
  for (const message of proto.messageType.filter(({ name }) => wanted.has(name))) {
    for (const field of message.field.filter(({ type, label }) => type === Type.SFIXED64 && label === Label.REPEATED)) {
      field.type = Type.BYTES;
      field.label = Label.OPTIONAL;
    }
  }
  const registry = createFileRegistry(proto, (name) => file.dependencies.find((dependency) => `${dependency.name}.proto` === name));
  const made = registry.getService(typeName)!.method;
  return { unary: made[unary] as DescMethodUnary, stream: made[stream] as DescMethodBiDiStreaming };
}
