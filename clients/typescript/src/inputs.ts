/** What questions are about: shapes, modules and maps, each in the forms that it may have. */

import { create } from "@bufbuild/protobuf";

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

/** @internal */
export function shapeInput(shape: ShapeLike): ShapeInput {
  if (typeof shape === "string") {
    return create(ShapeInputSchema, { form: { case: "text", value: shape } });
  }
  if (shape instanceof Uint8Array) {
    return create(ShapeInputSchema, { form: { case: "serialized", value: shape } });
  }
  switch (shape?.$typeName) {
    case "xlashape.v1.ShapeInput":
      return shape;
    case "xlashape.v1.Shape":
      return create(ShapeInputSchema, { form: { case: "shape", value: shape } });
    default:
      throw mistake("INVALID_ARGUMENT", "shape", `expected a shape as text, bytes or a message, found ${typeof shape}`);
  }
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

/** @internal */
export function mapInput(map: MapLike): MapInput {
  if (typeof map === "string") {
    return create(MapInputSchema, { form: { case: "text", value: map } });
  }
  if (map instanceof EvaluableMap) {
    return create(MapInputSchema, { form: { case: "map", value: map.message } });
  }
  switch (map?.$typeName) {
    case "xlashape.v1.MapInput":
      return map;
    case "xlashape.v1.IndexingMap":
      return create(MapInputSchema, { form: { case: "map", value: map } });
    default:
      throw mistake("INVALID_ARGUMENT", "map", `expected a map as text or a message, found ${typeof map}`);
  }
}
