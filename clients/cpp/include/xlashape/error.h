/// @file
/// The exception that every function of the client throws.

#ifndef XLASHAPE_ERROR_H_
#define XLASHAPE_ERROR_H_

#include <grpcpp/support/status.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>

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
class Error : public std::runtime_error {
 public:
  /// What an Error is made of.
  struct Parts {
    grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT;  ///< See Error::code().
    std::string reason;  ///< See Error::reason().
    std::string message;  ///< See Error::message().
    std::string field;  ///< See Error::field().
    int line = 0;  ///< See Error::line().
    int column = 0;  ///< See Error::column().
    std::map<std::string, std::string> details;  ///< See Error::details().
    std::string serialized_status;  ///< See Error::serialized_status().
  };

  /// Makes an error. what() is put together of the parts.
  explicit Error(Parts parts);

  /// The status of the call: INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED, UNAVAILABLE, …
  grpc::StatusCode code() const noexcept { return parts_->code; }

  /// The server's name for what is wrong: PARSE, INVALID_INDEX, NOT_FOUND, LIMIT_EXCEEDED, … Empty if the error does not come from xlashape, but from
  /// gRPC or from a proxy.
  const std::string& reason() const noexcept { return parts_->reason; }

  /// What is wrong, in a sentence. what() also has the field, the line and the column.
  const std::string& message() const noexcept { return parts_->message; }

  /// The path of the wrong field in the request, such as `shapes[3].text`. Empty if no field is to blame.
  const std::string& field() const noexcept { return parts_->field; }

  /// The line where text is wrong, from 1. 0 if the mistake is not in text.
  int line() const noexcept { return parts_->line; }

  /// The column where text is wrong, in characters, from 1. 0 if the mistake is not in text.
  int column() const noexcept { return parts_->column; }

  /// All other details by name: `limit`, `maximum` and `value` of an exceeded limit, `kind` and `name` of what was not found, …
  const std::map<std::string, std::string>& details() const noexcept { return parts_->details; }

  /// The serialized google.rpc.Status of the call, with BadRequest, QuotaFailure or ResourceInfo, for programs that have google.rpc's schema. Empty if
  /// the server sent none.
  const std::string& serialized_status() const noexcept { return parts_->serialized_status; }

 private:
  std::shared_ptr<const Parts> parts_;
};

/// Throws the Error of a status that is not OK. For calls made with generated stubs.
void Check(const grpc::Status& status);

/// The name of a status code as gRPC's documents write it: `INVALID_ARGUMENT`.
std::string CodeName(grpc::StatusCode code);

}  // namespace xlashape

#endif  // XLASHAPE_ERROR_H_
