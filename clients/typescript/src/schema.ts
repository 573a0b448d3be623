/** The generated messages, enums and services of `xlashape.v1`. */

export * from "./gen/xlashape/v1/hlo_service_pb.js";
export * from "./gen/xlashape/v1/indexing_service_pb.js";
export * from "./gen/xlashape/v1/report_service_pb.js";
export * from "./gen/xlashape/v1/shape_service_pb.js";
export * from "./gen/xlashape/v1/types_pb.js";
export * from "./gen/xlashape/v1/view_service_pb.js";
