#ifndef XLASHAPE_SRC_CALLS_H_
#define XLASHAPE_SRC_CALLS_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <atomic>
#include <iterator>
#include <mutex>
#include <set>
#include <tuple>

#include "mistake.h"
#include "xlashape/client.h"
#include "xlashape/v1/hlo_service.grpc.pb.h"
#include "xlashape/v1/indexing_service.grpc.pb.h"
#include "xlashape/v1/report_service.grpc.pb.h"
#include "xlashape/v1/shape_service.grpc.pb.h"
#include "xlashape/v1/view_service.grpc.pb.h"

namespace xlashape {

/// The number of int64 that one message carries: 2 MiB, half of what gRPC receives by default.
constexpr std::size_t kUnaryNumbers = std::size_t{1} << 18;
/// The number of questions in one message whose answers are several times as large.
constexpr std::size_t kUnaryAnswers = std::size_t{1} << 14;

/// gRPC's service config: calls go to all addresses in turn, and are sent again as their `idempotency_level` allows.
std::string ServiceConfig(int attempts);

/// Checks that the server answered each item of a request.
inline void CheckNumber(std::size_t found, std::size_t expected) {
  if (found == expected) return;
  Refuse("INVALID_ANSWER", "", "the server answered " + std::to_string(found) + " of " + std::to_string(expected) + " items");
}

/// The items of an answer, if it has as many as the request.
template <class Item>
std::vector<Item> Each(google::protobuf::RepeatedPtrField<Item>* items, std::size_t expected) {
  CheckNumber(static_cast<std::size_t>(items->size()), expected);
  return {std::make_move_iterator(items->begin()), std::make_move_iterator(items->end())};
}

/// The only item of an answer.
template <class Items>
auto One(Items* items) {
  CheckNumber(static_cast<std::size_t>(items->size()), 1);
  return std::move(*items->begin());
}

/// Adds numbers of an answer to those before.
template <class Number>
void Append(const google::protobuf::RepeatedField<Number>& numbers, std::vector<Number>* to) {
  to->insert(to->end(), numbers.begin(), numbers.end());
}

/// A server, over a channel of its own: TLS checks each certificate against the name of its server.
struct Server {
  std::shared_ptr<grpc::Channel> channel;
  std::tuple<std::unique_ptr<v1::ShapeService::Stub>, std::unique_ptr<v1::HloService::Stub>, std::unique_ptr<v1::IndexingService::Stub>,
             std::unique_ptr<v1::ReportService::Stub>, std::unique_ptr<v1::ViewService::Stub>>
      stubs;
};

/// All servers of a client, how many calls they got, and how often one call is sent.
struct Servers {
  std::vector<Server> list;
  mutable std::atomic<std::size_t> turn{0};
  int attempts = 1;
};

/// The calls that a Cancellation ends.
class Cancellation::State {
 public:
  bool is_cancelled() const { return is_cancelled_; }

  void Cancel() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_cancelled_ = true;
    for (grpc::ClientContext* context : running_) context->TryCancel();
  }

  void Add(grpc::ClientContext* context) {
    const std::lock_guard<std::mutex> lock(mutex_);
    running_.insert(context);
    if (is_cancelled_) context->TryCancel();
  }

  void Remove(grpc::ClientContext* context) {
    const std::lock_guard<std::mutex> lock(mutex_);
    running_.erase(context);
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> is_cancelled_{false};
  std::set<grpc::ClientContext*> running_;
};

/// Makes the calls of a client with the generated stubs. Copies share the connection.
class Calls {
 public:
  template <class Stub, class Request, class Answer>
  using Unary = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Answer*);

  Calls(const std::string& address, const Options& options);

  /// The next server in turn of those that are connected. While none is, it waits until `end`, or until all have failed.
  const Server& Next(std::chrono::system_clock::time_point end) const;

  /// What is left of the time of a call.
  std::chrono::milliseconds Left(std::chrono::steady_clock::time_point began) const;

  /// Waits before the next attempt, if several servers are asked and another attempt is allowed.
  bool Pause(int attempt) const;

  /// The stub of that server, for a call.
  template <class Stub>
  Stub& stub(const grpc::ClientContext& context) const {
    return *std::get<std::unique_ptr<Stub>>(Next(context.deadline()).stubs);
  }

  /// The context of a call, which a Cancellation may end.
  class Context : public grpc::ClientContext {
   public:
    Context(const Calls& calls, std::chrono::milliseconds timeout) : cancellation_(calls.cancellation.state_) {
      calls.Prepare(this, timeout);
      cancellation_->Add(this);
    }
    ~Context() { cancellation_->Remove(this); }

   private:
    std::shared_ptr<Cancellation::State> cancellation_;
  };

  /// Gives the context of a call the token, and a deadline.
  void Prepare(grpc::ClientContext* context, std::chrono::milliseconds timeout) const;

  /// The answer to a request. To a single server gRPC sends it again, as the service config says; to several this does, unless `once` is set.
  template <class Stub, class Request, class Answer>
  Answer Ask(Unary<Stub, Request, Answer> method, const Request& request, bool once = false) const {
    const auto began = std::chrono::steady_clock::now();
    for (int attempt = 1;; ++attempt) {
      Context context(*this, Left(began));
      Answer answer;
      const grpc::Status status = (stub<Stub>(context).*method)(&context, request, &answer);
      if (status.error_code() == grpc::StatusCode::UNAVAILABLE && !once && Pause(attempt)) continue;
      Check(status);
      return answer;
    }
  }

  /// The items of all pages.
  template <class Stub, class Request, class Answer, class Item>
  Sequence<Item> Pages(Unary<Stub, Request, Answer> method, Request request,
                       google::protobuf::RepeatedPtrField<Item>* (Answer::*items)()) const {
    struct State {
      Request request;
      Answer page;
      int next = 0;
      bool is_last = false;
    };
    auto state = std::make_shared<State>(State{std::move(request), {}});
    return Sequence<Item>([calls = *this, state, method, items](Item* item) {
      while (state->next == (state->page.*items)()->size()) {
        if (state->is_last) return false;
        state->page = calls.Ask(method, state->request);
        state->next = 0;
        state->is_last = state->page.next_page_token().empty();
        state->request.set_page_token(state->page.next_page_token());
      }
      *item = std::move(*(state->page.*items)()->Mutable(state->next++));
      return true;
    });
  }

  std::chrono::milliseconds timeout;
  std::chrono::milliseconds stream_timeout;
  Cancellation cancellation;

 private:
  std::shared_ptr<const Servers> servers_;
  std::function<std::string()> token_;
};

}  // namespace xlashape

#endif  // XLASHAPE_SRC_CALLS_H_
