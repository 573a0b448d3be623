#include "calls.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <random>
#include <thread>

namespace xlashape {
namespace {

/// A factory of interceptors that the channels of several servers share. gRPC wants one for each.
class SharedFactory : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit SharedFactory(std::shared_ptr<ClientInterceptorFactoryInterface> shared) : shared_(std::move(shared)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(grpc::experimental::ClientRpcInfo* info) override {
    return shared_->CreateClientInterceptor(info);
  }

 private:
  std::shared_ptr<ClientInterceptorFactoryInterface> shared_;
};

std::shared_ptr<grpc::Channel> Connected(const std::string& address, const Options& options) {
  if (address.empty()) Refuse("INVALID_ARGUMENT", "address", "expected HOST:PORT, unix:PATH or a target of gRPC, found an empty text");
  grpc::ChannelArguments arguments = options.channel_arguments;
  arguments.SetUserAgentPrefix("xlashape-cpp/" XLASHAPE_VERSION);
  arguments.SetServiceConfigJSON(ServiceConfig(options.attempts));
  arguments.SetMaxReceiveMessageSize(options.max_answer_bytes);
  arguments.SetMaxSendMessageSize(-1);
  if (options.keepalive.count() > 0) arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(options.keepalive.count()));
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, options.addresses.empty() && options.attempts > 1);  // among several servers `Calls` does
  auto credentials = grpc::InsecureChannelCredentials();
  if (options.tls) {
    const Tls& tls = *options.tls;
    if (!tls.server_name.empty()) arguments.SetSslTargetNameOverride(tls.server_name);
    credentials = grpc::SslCredentials({tls.root_certificates, tls.private_key, tls.certificate_chain});
  }
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  for (const auto& factory : options.interceptors) interceptors.push_back(std::make_unique<SharedFactory>(factory));
  return grpc::experimental::CreateCustomChannelWithInterceptors(address, credentials, arguments, std::move(interceptors));
}

}  // namespace

Calls::Calls(const std::string& address, const Options& options)
    : timeout(options.timeout), stream_timeout(options.stream_timeout), token_(options.token_source) {
  if (options.attempts < 1 || options.attempts > 5) {
    Refuse("INVALID_ARGUMENT", "attempts", "a call has 1 to 5 attempts, not " + std::to_string(options.attempts));
  }
  if (!token_ && !options.token.empty()) token_ = [token = options.token] { return token; };
  std::vector<std::string> addresses = options.addresses;
  addresses.insert(addresses.begin(), address);
  const auto servers = std::make_shared<Servers>();
  for (const std::string& one : addresses) {
    const auto channel = Connected(one, options);
    servers->list.push_back({channel,
                             {v1::ShapeService::NewStub(channel), v1::HloService::NewStub(channel), v1::IndexingService::NewStub(channel),
                              v1::ReportService::NewStub(channel), v1::ViewService::NewStub(channel)}});
  }
  if (addresses.size() > 1) servers->attempts = options.attempts;
  servers_ = servers;
}

std::chrono::milliseconds Calls::Left(std::chrono::steady_clock::time_point began) const {
  if (timeout <= timeout.zero()) return timeout;
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began);
  return std::max(timeout - passed, std::chrono::milliseconds(1));
}

bool Calls::Pause(int attempt) const {
  if (attempt >= servers_->attempts || cancellation.state_->is_cancelled()) return false;
  thread_local std::minstd_rand random(std::random_device{}());
  std::this_thread::sleep_for(std::chrono::milliseconds(80 + random() % 40) * (1 << (attempt - 1)));
  return true;
}

const Server& Calls::Next(std::chrono::system_clock::time_point end) const {
  const std::vector<Server>& all = servers_->list;
  const std::size_t turn = all.size() == 1 ? 0 : servers_->turn++;
  while (all.size() > 1) {
    std::vector<const Server*> ready;
    std::size_t failed = 0;
    for (const Server& one : all) {
      const grpc_connectivity_state state = one.channel->GetState(true);
      if (state == GRPC_CHANNEL_READY) ready.push_back(&one);
      failed += state == GRPC_CHANNEL_TRANSIENT_FAILURE;
    }
    if (!ready.empty()) return *ready[turn % ready.size()];
    if (failed == all.size() || cancellation.state_->is_cancelled() || std::chrono::system_clock::now() >= end) break;
    // gRPC works at a connection while somebody waits for it; otherwise every five seconds.
    for (const Server& one : all) {
      one.channel->WaitForStateChange(one.channel->GetState(true), std::chrono::system_clock::now() + std::chrono::milliseconds(2));
    }
  }
  return all[turn % all.size()];  // whose error says why
}

void Calls::Prepare(grpc::ClientContext* context, std::chrono::milliseconds timeout) const {
  // A year stands for as long as it takes: the clock counts nanoseconds, and ends in 2262.
  constexpr std::chrono::hours kYear(24 * 365);
  if (timeout > timeout.zero() && timeout < kYear) context->set_deadline(std::chrono::system_clock::now() + timeout);
  if (!token_) return;
  if (const std::string token = token_(); !token.empty()) context->AddMetadata("authorization", "Bearer " + token);
}

}  // namespace xlashape
