"""The gRPC service over the library."""
