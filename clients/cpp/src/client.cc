#include "xlashape/client.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <istream>
#include <ostream>
#include <sstream>
#include <thread>

#include "calls.h"
#include "sha256.h"

namespace xlashape {
namespace {

/// The size of a part of a module that is sent or fetched in several messages.
constexpr std::size_t kPartBytes = std::size_t{1} << 20;

/// Sends a module in parts, which `read` gives until an empty one. `part` has what else the first message says.
template <class Read>
Uploaded Send(const Calls& calls, v1::UploadModuleRequest part, const Progress& progress, Read read) {
  Calls::Context context(calls, calls.stream_timeout);
  v1::UploadModuleResponse answer;
  const auto stream = calls.stub<v1::HloService::Stub>(context).UploadModule(&context, &answer);
  std::int64_t sent = 0;
  try {
    for (read(part.mutable_data()); !part.data().empty(); read(part.mutable_data())) {
      part.set_more_follows(true);
      if (!stream->Write(part)) break;  // Finish gives the reason
      sent += static_cast<std::int64_t>(part.data().size());
      if (progress) progress(sent);
      part.Clear();
    }
  } catch (...) {
    context.TryCancel();  // without its last message the stream is refused
    stream->Finish();
    throw;
  }
  stream->WriteLast(part, grpc::WriteOptions());
  Check(stream->Finish());
  return {std::move(*answer.mutable_module()), true};
}

}  // namespace

Client::Client(const std::string& address, const Options& options) : ClientMethods(std::make_shared<const Calls>(address, options)) {}

Client Client::WithTimeout(std::chrono::milliseconds timeout) const {
  const auto calls = std::make_shared<Calls>(*calls_);
  calls->timeout = timeout;
  calls->stream_timeout = timeout;
  return Client(calls);
}

Cancellation::Cancellation() : state_(std::make_shared<State>()) {}

void Cancellation::Cancel() const { state_->Cancel(); }

Client Client::WithCancellation(const Cancellation& cancellation) const {
  const auto calls = std::make_shared<Calls>(*calls_);
  calls->cancellation = cancellation;
  return Client(calls);
}

void Client::WaitUntilReady(std::chrono::milliseconds timeout) const {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    try {
      const Client asking = WithTimeout(std::max(left, std::chrono::milliseconds(1)));
      asking.calls_->Ask(&v1::ShapeService::Stub::ByteSize, v1::ByteSizeRequest());
      return;
    } catch (const Error& error) {
      if (error.code() != grpc::StatusCode::UNAVAILABLE || std::chrono::steady_clock::now() >= end) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

std::shared_ptr<grpc::ChannelInterface> Client::channel() const {
  return calls_->Next(std::chrono::system_clock::now() + std::chrono::seconds(20)).channel;
}

void Client::Prepare(grpc::ClientContext* context) const { calls_->Prepare(context, calls_->timeout); }

Uploaded Client::UploadModule(std::string_view content, const Progress& progress) const {
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
    if (progress) progress(static_cast<std::int64_t>(content.size()));
    return {std::move(*answer.mutable_module()), true};
  }
  v1::UploadModuleRequest first;
  first.set_sha256(digest);
  first.set_size_bytes(static_cast<std::int64_t>(content.size()));
  return Send(*calls_, std::move(first), progress, [content](std::string* part) mutable {
    *part = content.substr(0, kPartBytes);
    content.remove_prefix(part->size());
  });
}

Uploaded Client::UploadModule(std::istream& from, const Progress& progress) const {
  return Send(*calls_, {}, progress, [&from](std::string* part) {
    part->resize(kPartBytes);
    from.read(part->data(), kPartBytes);
    part->resize(static_cast<std::size_t>(from.gcount()));
    if (from.bad()) Refuse("INVALID_ARGUMENT", "from", "cannot read the module");
  });
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
