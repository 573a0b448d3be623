#include "xlashape/client.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <ostream>
#include <sstream>

#include "calls.h"
#include "sha256.h"

namespace xlashape {
namespace {

/// The size of a part of a module that is sent or fetched in several messages.
constexpr std::size_t kPartBytes = std::size_t{1} << 20;

}  // namespace

v1::ShapeInput SerializedShape(std::string proto) {
  v1::ShapeInput input;
  input.set_serialized(std::move(proto));
  return input;
}

Client::Client(const std::string& address, const Options& options) : ClientMethods(std::make_shared<const Calls>(address, options)) {}

Client Client::WithTimeout(std::chrono::milliseconds timeout) const {
  const auto calls = std::make_shared<Calls>(*calls_);
  calls->timeout = timeout;
  Client client = *this;
  client.calls_ = calls;
  return client;
}

std::shared_ptr<grpc::ChannelInterface> Client::channel() const { return calls_->channel; }

void Client::Prepare(grpc::ClientContext* context) const { calls_->Prepare(context); }

Uploaded Client::UploadModule(std::string_view content) const {
  const std::string digest = Sha256(content);
  try {
    return {GetModule("modules/" + digest), false};
  } catch (const Error& error) {
    if (error.code() != grpc::StatusCode::NOT_FOUND) throw;
  }
  if (content.size() <= kPartBytes) {
    v1::PutModuleRequest request;
    request.set_data(content.data(), content.size());
    request.set_sha256(digest);
    v1::PutModuleResponse answer = calls_->Ask(&v1::HloService::Stub::PutModule, request);
    return {std::move(*answer.mutable_module()), true};
  }
  grpc::ClientContext context;
  Prepare(&context);
  v1::UploadModuleResponse answer;
  const auto stream = calls_->stub<v1::HloService::Stub>().UploadModule(&context, &answer);
  for (std::size_t start = 0; start < content.size(); start += kPartBytes) {
    const std::string_view data = content.substr(start, kPartBytes);
    v1::UploadModuleRequest part;
    part.set_data(data.data(), data.size());
    if (start == 0) {
      part.set_sha256(digest);
      part.set_size_bytes(static_cast<std::int64_t>(content.size()));
    }
    if (!stream->Write(part)) break;  // Finish gives the reason
  }
  stream->WritesDone();
  Check(stream->Finish());
  return {std::move(*answer.mutable_module()), true};
}

Uploaded Client::UploadModuleFile(const std::string& path) const {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (file.peek() != std::ifstream::traits_type::eof()) content << file.rdbuf();
  if (!file.is_open() || file.bad() || !content) Refuse("INVALID_ARGUMENT", "path", "cannot read " + path + ": " + std::strerror(errno));
  return UploadModule(content.str());
}

std::string Client::DownloadModule(const std::string& name) const {
  std::ostringstream content;
  DownloadModule(name, content);
  return content.str();
}

std::int64_t Client::DownloadModule(const std::string& name, std::ostream& to) const {
  v1::GetModuleRequest request;
  request.set_name(name);
  request.set_include_content(true);
  request.set_content_limit(kPartBytes);
  std::int64_t written = 0;
  while (true) {
    request.set_content_offset(written);
    const v1::GetModuleResponse answer = calls_->Ask(&v1::HloService::Stub::GetModule, request);
    const auto size = static_cast<std::streamsize>(answer.content().size());
    if (!to.write(answer.content().data(), size)) return written;
    written += size;
    if (size == 0 || written >= answer.module().size_bytes()) return written;
  }
}

}  // namespace xlashape
