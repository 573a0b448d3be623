/** What questions are about: shapes, modules and maps, each in the forms that it may have. */

import { create, isMessage, type MessageInitShape, ScalarType } from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";

import { mistake } from "./errors.js";
import { EvaluableMap } from "./evaluable-map.js";
import {
  type IndexingMap, type MapInput, MapInputSchema, type ModuleInput, ModuleInputSchema, type Shape, type ShapeInput, ShapeInputSchema,
} from "./gen/xlashape/v1/types_pb.js";

/**
 * A shape: XLA's text, such as `f32[8,128]{1,0:T(8,128)}`, the bytes of an `xla.ShapeProto`, or a message such as `ShapeDescription.shape`. A missing layout
 * stands for the default layout.
 */
export type ShapeLike = string | Uint8Array | Shape | ShapeInput;

/** A module: one that the server has, by its name (a `Module` has one too), HLO text, or the bytes of an `xla.HloModuleProto` or `xla.HloProto`. */
export type ModuleLike = { readonly name: string } | { readonly text: string } | { readonly serialized: Uint8Array };

/** A map: its text, such as `(d0) -> (d0 * 4), domain: d0 in [0, 9]`, an {@link EvaluableMap}, or a message of an answer. */
export type MapLike = string | EvaluableMap | IndexingMap | MapInput;

/** A request about a module, with the module in any form, and without the fields that have their default. */
export type About<Request> = { module: ModuleLike } & Partial<Omit<Request, "module" | "$typeName" | "$unknown">>;

interface Subjects {
  readonly module: ModuleLike;
  readonly shape: ShapeLike;
  readonly map: MapLike;
  readonly text: string;
}

/** A request about one of several subjects, in any form, and without the fields that have their default. */
export type AboutOne<Request, Name extends keyof Subjects> =
  { [Given in Name]: Pick<Subjects, Given> & { readonly [Other in Exclude<Name, Given>]?: undefined } }[Name]
  & Partial<Omit<Request, "subject" | "$typeName" | "$unknown">>;

/** The request with its subject as the message has it. @internal */
export function aboutOne<Request extends object>(request: Request): Omit<Request, keyof Subjects> & { subject: { case: any; value: any } } {
  const { module, shape, map, text, ...others } = request as Partial<Subjects>;
  const subject = module !== undefined ? { case: "module", value: moduleInput(module) }
    : shape !== undefined ? { case: "shape", value: shapeInput(shape) }
      : map !== undefined ? { case: "map", value: mapInput(map) } : { case: "text", value: text ?? "" };
  return { ...others as Omit<Request, keyof Subjects>, subject };
}

/** @internal */
export function shapeInput(shape: ShapeLike): ShapeInput {
  return formOf(ShapeInputSchema, shape) ?? refuse("shape", shape, "text, bytes or a message");
}

/** @internal */
export function mapInput(map: MapLike): MapInput {
  const given = map instanceof EvaluableMap ? map.message : map;
  return formOf(MapInputSchema, given) ?? refuse("map", map, "text or a message");
}

/** @internal */
export function moduleInput(module: ModuleLike): ModuleInput {
  for (const form of ["name", "text", "serialized"] as const) {
    const value: unknown = (module as Partial<Record<typeof form, unknown>> | undefined)?.[form];
    if (value !== undefined) {
      return create(ModuleInputSchema, { source: { case: form, value } as ModuleInput["source"] });
    }
  }
  throw mistake("INVALID_ARGUMENT", "module", "expected { module: … } with name, text or serialized");
}

/** A message whose only fields are the forms of what is given: the field of its type. Undefined if there is none. */
function formOf<Input extends ShapeInput | MapInput>(schema: GenMessage<Input>, given: unknown): Input | undefined {
  if (isMessage(given, schema)) {
    return given as Input;
  }
  const form = schema.fields.find((field) =>
    field.scalar === ScalarType.STRING ? typeof given === "string"
      : field.scalar === ScalarType.BYTES ? given instanceof Uint8Array : isMessage(given, field.message));
  return form && create(schema, { form: { case: form.localName, value: given } } as MessageInitShape<typeof schema>);
}

function refuse(field: string, found: unknown, forms: string): never {
  throw mistake("INVALID_ARGUMENT", field, `expected a ${field} as ${forms}, found ${typeof found}`);
}
