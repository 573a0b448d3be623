/// @file
/// The client of an xlashape server.

#ifndef XLASHAPE_CLIENT_H_
#define XLASHAPE_CLIENT_H_

#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/client_interceptor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "xlashape/client_methods.h"
#include "xlashape/error.h"
#include "xlashape/reasons.h"

namespace grpc {
class ChannelInterface;
class ClientContext;
}  // namespace grpc

namespace xlashape {

/// How a connection is encrypted. All texts are in PEM.
struct Tls {
  /// The certificates that the server's one is checked against. Empty: those of the system.
  std::string root_certificates;
  /// The key of the certificate with which the client identifies itself, if the server asks for one.
  std::string private_key;
  /// That certificate, and those that certify it.
  std::string certificate_chain;
  /// The host name that the certificates of all servers are for. Empty: that of the address of each.
  std::string server_name;
};

/// How a Client connects, and how it makes its calls.
struct Options {
  /// Encrypts the connection. Without it, everything travels readably.
  std::optional<Tls> tls;
  /// A bearer token that is sent with each call.
  std::string token;
  /// Gives the bearer token of each call instead, for tokens that change. Several threads may call it at once.
  std::function<std::string()> token_source;
  /// How long each call without a stream may take. 0: as long as it takes.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  /// How long each call with a stream may take. 0: as long as it takes, so that a slow reader is not cut off.
  std::chrono::milliseconds stream_timeout{0};
  /// The silence of a call after which the server is asked for a sign of life, at least ten seconds. 0: never.
  std::chrono::milliseconds keepalive{0};
  /// How often a call is sent in all while the server is unavailable, from 1 to 5, with growing, random pauses from 100 ms. Calls with a stream, and those
  /// that a second one would change, are sent once.
  int attempts = 4;
  /// Further servers that have the same modules. Calls go in turn to all that are connected. Each server has a connection of its own, and with TLS a
  /// certificate of its own name.
  std::vector<std::string> addresses;
  /// The bytes that one message from the server may have.
  int max_answer_bytes = 64 << 20;
  /// They see every call to the server, those of generated stubs too, and may add headers. The first one sees it first.
  /// A call that is sent again to another server is seen again.
  std::vector<std::shared_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  /// Further settings of gRPC's.
  grpc::ChannelArguments channel_arguments;
};

/// Ends calls from another thread: those of all clients that Client::WithCancellation made with it. Copies are the same cancellation.
class Cancellation {
 public:
  Cancellation();
  /// Ends all calls, and all later ones at once, with an Error of code CANCELLED.
  void Cancel() const;

 private:
  friend class Calls;
  class State;
  std::shared_ptr<State> state_;
};

/// Asks one server, or several that have the same modules. Threads may share a client. Copies share the connection, which ends with the last of them and
/// of its streams.
///
/// Every function throws an Error if the server refuses, or cannot be reached.
class Client : public ClientMethods {
 public:
  /// Makes a client of the server at an address: HOST:PORT, `unix:PATH`, or any other target of gRPC such as `dns:///HOST:PORT`, which spreads calls over
  /// all addresses of the name. The connection is made by the first call, and again whenever it breaks.
  explicit Client(const std::string& address, const Options& options = {});

  /// The same client, whose calls may take another time, with streams and without. 0: as long as they take.
  Client WithTimeout(std::chrono::milliseconds timeout) const;

  /// The same client, whose calls another thread can end.
  Client WithCancellation(const Cancellation& cancellation) const;

  /// Returns once the server answers calls. Throws the last Error if it does not within `timeout`, and at once if it refuses.
  void WaitUntilReady(std::chrono::milliseconds timeout = std::chrono::minutes(1)) const;

  /// @name Modules of files
  /// @{

  /// Stores the module in a file. A module that the server has already is not sent again.
  Uploaded UploadModuleFile(const std::string& path) const;

  /// @}
  /// @name Calls with generated stubs
  /// @{

  /// The connection, of several servers that of the next in turn, for calls that the functions above do not cover, and for other services of the server:
  ///
  /// @code
  /// auto stub = xlashape::v1::HloService::NewStub(client.channel());
  /// grpc::ClientContext context;
  /// client.Prepare(&context);
  /// xlashape::Check(stub->ByteSizes(&context, request, &answer));
  /// @endcode
  std::shared_ptr<grpc::ChannelInterface> channel() const;

  /// Gives the context of a call the client's token, and its timeout as deadline.
  void Prepare(grpc::ClientContext* context) const;

  /// @}

 private:
  explicit Client(std::shared_ptr<const Calls> calls) : ClientMethods(std::move(calls)) {}
};

}  // namespace xlashape

#endif  // XLASHAPE_CLIENT_H_
