#include "xlashape/client.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "calls.h"

namespace xlashape {

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

Uploaded Client::UploadModuleFile(const std::string& path) const {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (file.peek() != std::ifstream::traits_type::eof()) content << file.rdbuf();
  if (!file.is_open() || file.bad() || !content) Refuse("INVALID_ARGUMENT", "path", "cannot read " + path + ": " + std::strerror(errno));
  return UploadModule(content.str());
}

}  // namespace xlashape
