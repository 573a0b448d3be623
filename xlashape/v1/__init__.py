"""The messages and services of `xlashape.v1` as protoc generates them, in protobuf's ordinary pool: `types_pb2`,
`shape_service_pb2`, `shape_service_pb2_grpc` and so on, for programs that speak to a server without `xlashape_client`.

The library itself uses the classes of `xlashape.proto`, whose pool is its own. Programs whose stubs are made of the
same schema share these files' descriptors. Of XLA's schema, the package `xla`, there are none here: another copy of it
may be in the same process.
"""
