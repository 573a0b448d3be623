/// @file
/// The exception that every function of the client throws.

#ifndef XLASHAPE_ERROR_H_
#define XLASHAPE_ERROR_H_

#include <string>

#include "xlashape/error_parts.h"

namespace xlashape {

/// What a call was refused with, or why it did not reach the server.
///
/// @code
/// try {
///   client.ByteSize("f32[3,5");
/// } catch (const xlashape::Error& error) {
///   if (error.reason() == "PARSE") std::cerr << error.line() << ":" << error.column() << "\n";
/// }
/// @endcode
///
/// Copying an Error throws nothing.
class Error : public ErrorBase {
 public:
  /// What an Error is made of.
  using Parts = ErrorParts;

  /// Makes an error. what() is put together of the parts.
  explicit Error(Parts parts);

  /// The serialized google.rpc.Status of the call, with BadRequest, QuotaFailure or ResourceInfo, for programs that have google.rpc's schema. Empty if
  /// the server sent none.
  const std::string& serialized_status() const noexcept { return parts_->serialized_status; }
};

/// Throws the Error of a status that is not OK. For calls made with generated stubs.
void Check(const grpc::Status& status);

/// The name of a status code as gRPC's documents write it: `INVALID_ARGUMENT`.
std::string CodeName(grpc::StatusCode code);

}  // namespace xlashape

#endif  // XLASHAPE_ERROR_H_
