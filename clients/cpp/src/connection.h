#ifndef XLASHAPE_SRC_CONNECTION_H_
#define XLASHAPE_SRC_CONNECTION_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mistake.h"
#include "xlashape/client.h"
#include "xlashape/v1/hlo_service.grpc.pb.h"
#include "xlashape/v1/indexing_service.grpc.pb.h"
#include "xlashape/v1/shape_service.grpc.pb.h"

namespace xlashape {

/// The connection that copies of a client share.
class Client::Connection {
 public:
  Connection(const std::string& address, const Options& options);

  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::ShapeService::Stub> shapes;
  std::unique_ptr<v1::HloService::Stub> modules;
  std::unique_ptr<v1::IndexingService::Stub> indexing;
  std::string token;
};

/// The number of int64 that one message carries: 2 MiB, half of what gRPC receives by default.
constexpr std::size_t kUnaryNumbers = std::size_t{1} << 18;
/// The number of questions in one message whose answers are several times as large.
constexpr std::size_t kUnaryAnswers = std::size_t{1} << 14;

/// Checks that the server answered each item of a request.
template <class Answers>
const Answers& SameNumber(const Answers& answers, std::size_t expected) {
  if (static_cast<std::size_t>(answers.size()) != expected) {
    Refuse("INVALID_ANSWER", "", "the server answered " + std::to_string(answers.size()) + " of " + std::to_string(expected) + " items");
  }
  return answers;
}

/// The answer to a request by a method of a generated stub.
template <class Stub, class Request, class Answer>
Answer Ask(const Client& client, Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Answer*), const Request& request) {
  grpc::ClientContext context;
  client.Prepare(&context);
  Answer answer;
  Check((stub.*method)(&context, request, &answer));
  return answer;
}

/// Moves the items of an answer into a vector.
template <class Item>
std::vector<Item> Moved(google::protobuf::RepeatedPtrField<Item>* items) {
  return {std::make_move_iterator(items->begin()), std::make_move_iterator(items->end())};
}

/// The thread that sends the messages of a call. At the end of a block it cancels the call, unless that has ended, and waits for the thread.
class Sender {
 public:
  explicit Sender(grpc::ClientContext* context) : context_(context) {}
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  ~Sender() {
    context_->TryCancel();
    if (thread_.joinable()) thread_.join();
  }

  /// Runs `send` in the thread. What it throws cancels the call.
  template <class Send>
  void Start(Send send) {
    thread_ = std::thread([this, send = std::move(send)] {
      try {
        send();
      } catch (...) {
        thrown_ = std::current_exception();
        context_->TryCancel();
      }
    });
  }

  /// Waits for the thread without cancelling the call, and throws what the thread threw.
  void Join() {
    thread_.join();
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  grpc::ClientContext* context_;
  std::exception_ptr thrown_;
  std::thread thread_;
};

/// Sends numbers over a stream in parts of at most `most` numbers, each of whole rows of `width` numbers, while it reads the answers. `request(begin, end,
/// is_first)` makes a message of a part, `answer(response)` takes what comes.
template <class Request, class Response, class MakeRequest, class TakeAnswer>
void InParts(grpc::ClientContext* context, grpc::ClientReaderWriter<Request, Response>* stream, const std::vector<std::int64_t>& numbers,
             std::size_t width, std::size_t most, MakeRequest request, TakeAnswer answer) {
  width = std::max<std::size_t>(width, 1);
  const std::size_t size = std::max<std::size_t>(most / width, 1) * width;
  Sender sender(context);
  sender.Start([&numbers, stream, size, &request] {
    const std::int64_t* begin = numbers.data();
    for (std::size_t start = 0; start < numbers.size(); start += size) {
      const std::size_t stop = std::min(start + size, numbers.size());
      if (!stream->Write(request(begin + start, begin + stop, start == 0))) return;  // Finish gives the reason
    }
    stream->WritesDone();
  });
  Response response;
  while (stream->Read(&response)) answer(response);
  sender.Join();  // the server has ended the call, so that a write ends too
  Check(stream->Finish());
}

/// A call that answers with a stream, which is cancelled if it is not read to its end.
template <class Response>
class Call {
 public:
  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (!reader || ended_) return;
    context.TryCancel();
    Response rest;
    while (reader->Read(&rest)) continue;
    reader->Finish();
  }

  /// The next message; false at the end.
  bool Next(Response* response) {
    if (ended_) return false;
    response->Clear();
    if (reader->Read(response)) return true;
    ended_ = true;
    Check(reader->Finish());
    return false;
  }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<Response>> reader;

 private:
  bool ended_ = false;
};

/// The messages of a call. `open(context)` starts it.
template <class Response, class Open>
Sequence<Response> Stream(const Client& client, Open open) {
  auto call = std::make_shared<Call<Response>>();
  client.Prepare(&call->context);
  call->reader = open(&call->context);
  return Sequence<Response>([call](Response* response) { return call->Next(response); });
}

/// The items of all pages. `fetch(request)` returns the response to a request, whose items are `instructions`.
template <class Item, class Request, class Fetch>
Sequence<Item> Pages(Request request, Fetch fetch) {
  using Response = decltype(fetch(request));
  struct State {
    Request request;
    Fetch fetch;
    Response page;
    int next = 0;
    bool is_last = false;
  };
  auto state = std::make_shared<State>(State{std::move(request), std::move(fetch), {}});
  return Sequence<Item>([state](Item* item) {
    while (state->next == state->page.instructions_size()) {
      if (state->is_last) return false;
      state->page = state->fetch(state->request);
      state->next = 0;
      state->is_last = state->page.next_page_token().empty();
      state->request.set_page_token(state->page.next_page_token());
    }
    *item = std::move(*state->page.mutable_instructions(state->next++));
    return true;
  });
}

}  // namespace xlashape

#endif  // XLASHAPE_SRC_CONNECTION_H_
