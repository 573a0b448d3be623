#include "xlashape/error.h"

#include <utility>

#include "mistake.h"
#include "xlashape/client/status_details.pb.h"

namespace xlashape {
namespace {

std::string Text(const Error::Parts& parts) {
  std::string text = "xlashape: ";
  if (!parts.field.empty()) text += parts.field + ": ";
  if (parts.line > 0) text += "line " + std::to_string(parts.line) + ", column " + std::to_string(parts.column) + ": ";
  return text + parts.message + " (" + (parts.reason.empty() ? CodeName(parts.code) : parts.reason) + ")";
}

}  // namespace

Error::Error(Parts parts) : ErrorBase(Text(parts), parts) {}

void Check(const grpc::Status& status) {
  if (status.ok()) return;
  Error::Parts parts;
  parts.code = status.error_code();
  parts.message = status.error_message();
  parts.serialized_status = status.error_details();
  client::details::Status sent;
  if (!sent.ParseFromString(parts.serialized_status)) throw Error(std::move(parts));
  for (const auto& detail : sent.details()) {
    client::details::ErrorInfo info;
    const std::string& url = detail.type_url();
    if (url.substr(url.rfind('/') + 1) != "google.rpc.ErrorInfo" || !info.ParseFromString(detail.value()) || info.domain() != "xlashape") continue;
    parts.reason = info.reason();
    parts.details.insert(info.metadata().begin(), info.metadata().end());
    parts.Take();
    break;
  }
  throw Error(std::move(parts));
}

std::string CodeName(grpc::StatusCode code) {
  const auto number = static_cast<client::details::Code>(code);
  return client::details::Code_Name(client::details::Code_IsValid(number) ? number : client::details::UNKNOWN);
}

void Refuse(std::string reason, std::string field, std::string message) {
  Error::Parts parts;
  parts.reason = std::move(reason);
  parts.field = std::move(field);
  parts.message = std::move(message);
  throw Error(std::move(parts));
}

}  // namespace xlashape
