#include "calls.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "target.h"

namespace xlashape {
namespace {

/// Lets gRPC repeat calls and spread them over all addresses.
std::string ServiceConfig(int attempts) {
  std::string retries;
  if (attempts > 1) {
    retries = R"(, "retryPolicy": {"maxAttempts": )" + std::to_string(attempts) +
              R"(, "initialBackoff": "0.1s", "maxBackoff": "2s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]})";
  }
  return R"({"loadBalancingConfig": [{"round_robin": {}}], "methodConfig": [{"name": [{}])" + retries + "}]}";
}

std::shared_ptr<grpc::Channel> Connected(const std::string& address, const Options& options) {
  if (address.empty()) Refuse("INVALID_ARGUMENT", "address", "expected HOST:PORT, unix:PATH or a target of gRPC, found an empty text");
  if (options.attempts < 1 || options.attempts > 5) {
    Refuse("INVALID_ARGUMENT", "attempts", "a call has 1 to 5 attempts, not " + std::to_string(options.attempts));
  }
  std::vector<std::string> addresses = options.addresses;
  addresses.insert(addresses.begin(), address);
  const std::string target = Target(addresses);
  grpc::ChannelArguments arguments = options.channel_arguments;
  arguments.SetUserAgentPrefix("xlashape-cpp/" XLASHAPE_VERSION);
  arguments.SetServiceConfigJSON(ServiceConfig(options.attempts));
  arguments.SetMaxReceiveMessageSize(options.max_answer_bytes);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 1);  // which is not the default of old versions
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (options.tls) {
    credentials = grpc::SslCredentials({options.tls->root_certificates, options.tls->private_key, options.tls->certificate_chain});
    if (!options.tls->server_name.empty()) {
      arguments.SetSslTargetNameOverride(options.tls->server_name);
    } else if (addresses.size() > 1) {
      arguments.SetSslTargetNameOverride(Split(address).first);
    }
  }
  return grpc::CreateCustomChannel(target, credentials, arguments);
}

}  // namespace

Calls::Calls(const std::string& address, const Options& options)
    : channel(Connected(address, options)),
      timeout(options.timeout),
      stubs_(v1::ShapeService::NewStub(channel), v1::HloService::NewStub(channel), v1::IndexingService::NewStub(channel),
             v1::ReportService::NewStub(channel)),
      token_(options.token) {}

void Calls::Prepare(grpc::ClientContext* context) const {
  // A year stands for as long as it takes: the clock counts nanoseconds, and ends in 2262.
  constexpr std::chrono::hours kYear(24 * 365);
  if (timeout > timeout.zero() && timeout < kYear) context->set_deadline(std::chrono::system_clock::now() + timeout);
  if (!token_.empty()) context->AddMetadata("authorization", "Bearer " + token_);
}

std::size_t Calls::Width(const v1::ShapeInput& shape) const {
  v1::DescribeShapeRequest request;
  *request.add_shapes() = shape;
  v1::DescribeShapeResponse answer = Ask(&v1::ShapeService::Stub::DescribeShape, request);
  return static_cast<std::size_t>(One(answer.mutable_descriptions()).rank());
}

std::size_t Calls::Width(const v1::MapInput& map) const {
  if (!map.has_map()) return Map::Parse(map.text()).variables();
  return static_cast<std::size_t>(map.map().dimensions_size() + map.map().ranges_size() + map.map().runtime_size());
}

}  // namespace xlashape
