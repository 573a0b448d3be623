# Finds gRPC and protobuf: targets of this build (FetchContent), CMake's packages of them, or those of pkg-config.
#
# Sets XLASHAPE_GRPC, XLASHAPE_PROTOBUF and XLASHAPE_CRYPTO to what to link, XLASHAPE_PROTOC and XLASHAPE_GRPC_PLUGIN to programs.

# A program must not link both OpenSSL and BoringSSL, which gRPC's own source brings as the target `crypto`. Packages of gRPC link OpenSSL.
if(TARGET crypto)
  set(XLASHAPE_CRYPTO crypto)
else()
  find_package(OpenSSL REQUIRED COMPONENTS Crypto)
  set(XLASHAPE_CRYPTO OpenSSL::Crypto)
endif()

if(TARGET grpc++ AND TARGET libprotobuf)
  # gRPC's own source, built beside this.
  set(XLASHAPE_GRPC grpc++)
  set(XLASHAPE_PROTOBUF libprotobuf)
  set(XLASHAPE_PROTOC $<TARGET_FILE:protoc>)
  set(XLASHAPE_GRPC_PLUGIN $<TARGET_FILE:grpc_cpp_plugin>)
  return()
endif()

# Packages of protobuf 22 and later name what they link; the module of CMake does for older ones.
if(NOT TARGET protobuf::libprotobuf)
  find_package(Protobuf CONFIG QUIET)
endif()
if(NOT TARGET protobuf::libprotobuf)
  find_package(Protobuf REQUIRED)
endif()
set(XLASHAPE_PROTOBUF protobuf::libprotobuf)
if(TARGET protobuf::protoc)
  set(XLASHAPE_PROTOC $<TARGET_FILE:protobuf::protoc>)
else()
  set(XLASHAPE_PROTOC "${Protobuf_PROTOC_EXECUTABLE}")
endif()

find_package(gRPC CONFIG QUIET)
if(TARGET gRPC::grpc++)
  set(XLASHAPE_GRPC gRPC::grpc++)
else()
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(XLASHAPE_GRPCPP REQUIRED IMPORTED_TARGET GLOBAL grpc++)
  set(XLASHAPE_GRPC PkgConfig::XLASHAPE_GRPCPP)
endif()
if(TARGET gRPC::grpc_cpp_plugin)
  set(XLASHAPE_GRPC_PLUGIN $<TARGET_FILE:gRPC::grpc_cpp_plugin>)
else()
  find_program(XLASHAPE_GRPC_PLUGIN grpc_cpp_plugin)
endif()
