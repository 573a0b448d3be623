// The testee of the C++ client: it does what tests/conformance/run.py asks, and tells how it ended.

#include "testee.pb.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <istream>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <streambuf>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "xlashape/client.h"
#include "xlashape/v1/hlo_service.grpc.pb.h"
#include "xlashape/v1/indexing_service.grpc.pb.h"
#include "xlashape/v1/shape_service.grpc.pb.h"

namespace {

namespace conformance = xlashape::conformance;
namespace v1 = xlashape::v1;

template <class Message>
Message Parsed(const std::string& data) {
  Message message;
  if (!message.ParseFromString(data)) throw std::runtime_error("cannot parse a " + message.GetTypeName());
  return message;
}

void Add(const google::protobuf::Message& answer, conformance::Response* response) {
  if (!answer.SerializeToString(response->add_answers())) throw std::runtime_error("cannot serialize a " + answer.GetTypeName());
}

using Make = std::function<void(const xlashape::Client&, const conformance::Call&, conformance::Response*)>;

bool IsEnough(const conformance::Call& call, const conformance::Response& response) {
  return call.stop_after() > 0 && response.answers_size() >= static_cast<int>(call.stop_after());
}

/// Prepares a call, and cancels it after the time that the runner says, unless it has ended.
class Prepared {
 public:
  Prepared(const xlashape::Client& client, const conformance::Call& call, grpc::ClientContext* context) {
    client.WithTimeout(std::chrono::milliseconds(call.timeout_ms())).Prepare(context);
    if (call.cancel_after_ms() == 0) return;
    canceller_ = std::thread([this, context, after = std::chrono::milliseconds(call.cancel_after_ms())] {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!changed_.wait_for(lock, after, [this] { return has_ended_; })) context->TryCancel();
    });
  }

  ~Prepared() {
    if (!canceller_.joinable()) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      has_ended_ = true;
    }
    changed_.notify_one();
    canceller_.join();
  }

  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_ended_ = false;
  std::thread canceller_;
};

/// The token of the calls that come.
std::string& Token() {
  static std::string token;
  return token;
}

/// Reads the answers of a stream, and ends the call.
template <class Stream, class Answer>
void ReadAll(const conformance::Call& call, grpc::ClientContext* context, Stream* stream, conformance::Response* response, Answer answer) {
  while (!IsEnough(call, *response) && stream->Read(&answer)) Add(answer, response);
  if (IsEnough(call, *response)) {
    context->TryCancel();
    while (stream->Read(&answer)) continue;
  }
}

template <class Service, class Request, class Answer>
Make Unary(grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&, Answer*)) {
  return [method](const xlashape::Client& client, const conformance::Call& call, conformance::Response* response) {
    response->set_below(true);
    const auto stub = Service::NewStub(client.channel());
    grpc::ClientContext context;
    const Prepared prepared(client, call, &context);
    Answer answer;
    xlashape::Check((stub.get()->*method)(&context, Parsed<Request>(call.requests(0)), &answer));
    Add(answer, response);
  };
}

/// A method of the client that takes the request and returns the answer.
template <class Request, class Answer>
Make Public(Answer (xlashape::ClientMethods::*method)(const Request&) const) {
  return [method](const xlashape::Client& client, const conformance::Call& call, conformance::Response* response) {
    Add((client.WithTimeout(std::chrono::milliseconds(call.timeout_ms())).*method)(Parsed<Request>(call.requests(0))), response);
  };
}

template <class Service, class Request, class Answer>
Make Requests(std::unique_ptr<grpc::ClientWriter<Request>> (Service::Stub::*method)(grpc::ClientContext*, Answer*)) {
  return [method](const xlashape::Client& client, const conformance::Call& call, conformance::Response* response) {
    response->set_below(true);
    const auto stub = Service::NewStub(client.channel());
    grpc::ClientContext context;
    const Prepared prepared(client, call, &context);
    Answer answer;
    const auto stream = (stub.get()->*method)(&context, &answer);
    for (const std::string& data : call.requests()) {
      if (!stream->Write(Parsed<Request>(data))) break;
    }
    if (!call.keep_open()) stream->WritesDone();
    xlashape::Check(stream->Finish());
    Add(answer, response);
  };
}

template <class Service, class Request, class Answer>
Make BothWays(std::unique_ptr<grpc::ClientReaderWriter<Request, Answer>> (Service::Stub::*method)(grpc::ClientContext*)) {
  return [method](const xlashape::Client& client, const conformance::Call& call, conformance::Response* response) {
    response->set_below(true);
    const auto stub = Service::NewStub(client.channel());
    grpc::ClientContext context;
    const Prepared prepared(client, call, &context);
    const auto stream = (stub.get()->*method)(&context);
    std::vector<Request> requests;
    for (const std::string& data : call.requests()) requests.push_back(Parsed<Request>(data));
    std::thread sender([&] {
      for (const Request& request : requests) {
        if (!stream->Write(request)) return;
      }
      if (!call.keep_open()) stream->WritesDone();
    });
    ReadAll(call, &context, stream.get(), response, Answer());
    sender.join();
    const grpc::Status status = stream->Finish();
    if (!IsEnough(call, *response)) xlashape::Check(status);
  };
}

/// The client's functions of an RPC's name if they send the request, which `ask` knows by returning true, and the generated stub otherwise.
template <class Service, class Request, class Answer>
Make Asked(grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&, Answer*),
           std::function<bool(const xlashape::Client&, const Request&, Answer*)> ask) {
  return [method, ask](const xlashape::Client& client, const conformance::Call& call, conformance::Response* response) {
    Answer answer;
    if (call.cancel_after_ms() == 0 && ask(client.WithTimeout(std::chrono::milliseconds(call.timeout_ms())), Parsed<Request>(call.requests(0)), &answer)) {
      Add(answer, response);
    } else {
      Unary<Service>(method)(client, call, response);
    }
  };
}

using C = xlashape::Client;

bool DescribeShape(const C& client, const v1::DescribeShapeRequest& asked, v1::DescribeShapeResponse* answer) {
  if (asked.shapes_size() == 1) {
    *answer->add_descriptions() = client.DescribeShape(asked.shapes(0));
  } else {
    for (const auto& one : client.DescribeShapes({asked.shapes().begin(), asked.shapes().end()})) *answer->add_descriptions() = one;
  }
  return true;
}

bool ByteSize(const C& client, const v1::ByteSizeRequest& asked, v1::ByteSizeResponse* answer) {
  if (asked.pointer_size() != 0) return false;
  if (asked.shapes_size() == 1) {
    *answer->add_sizes() = client.ByteSize(asked.shapes(0));
  } else {
    for (const auto& one : client.ByteSizes({asked.shapes().begin(), asked.shapes().end()})) *answer->add_sizes() = one;
  }
  return true;
}

bool LinearIndex(const C& client, const v1::LinearIndexRequest& asked, v1::LinearIndexResponse* answer) {
  if (asked.count() != 1) return false;
  answer->add_positions(client.LinearIndex(asked.shape(), {asked.indices().begin(), asked.indices().end()}));
  return true;
}

bool MultiIndex(const C& client, const v1::MultiIndexRequest& asked, v1::MultiIndexResponse* answer) {
  const auto index = client.MultiIndex(asked.shape(), asked.positions(0));
  answer->add_is_element(index.has_value());
  if (index) answer->mutable_indices()->Add(index->begin(), index->end());
  return true;
}

bool PutModule(const C& client, const v1::PutModuleRequest& asked, v1::PutModuleResponse* answer) {
  if (!asked.sha256().empty()) return false;
  const xlashape::Uploaded uploaded = client.UploadModule(asked.data());
  *answer->mutable_module() = uploaded.module;
  answer->set_already_present(!uploaded.sent);
  return true;
}

bool GetModule(const C& client, const v1::GetModuleRequest& asked, v1::GetModuleResponse* answer) {
  if (asked.content_offset() != 0 || asked.content_limit() != 0) return false;
  if (asked.include_content()) answer->set_content(client.DownloadModule(asked.name()));
  *answer->mutable_module() = client.GetModule(asked.name());
  return true;
}

bool DeleteModule(const C& client, const v1::DeleteModuleRequest& asked, v1::DeleteModuleResponse*) {
  client.DeleteModule(asked.name());
  return true;
}

bool ParseMap(const C& client, const v1::ParseMapRequest& asked, v1::ParseMapResponse* answer) {
  if (asked.maps_size() != 1 || asked.style() != 0) return false;
  *answer->add_maps() = client.ParseMap(asked.maps(0));
  return true;
}

bool SimplifyMap(const C& client, const v1::SimplifyMapRequest& asked, v1::SimplifyMapResponse* answer) {
  if (asked.maps_size() != 1 || asked.style() != 0 || asked.remove_unused_variables()) return false;
  *answer->add_maps()->mutable_map() = client.SimplifyMap(asked.maps(0));
  return true;
}

bool ComposeMaps(const C& client, const v1::ComposeMapsRequest& asked, v1::ComposeMapsResponse* answer) {
  if (asked.chains_size() != 1 || asked.style() != 0 || asked.raw()) return false;
  *answer->add_maps() = client.ComposeMaps({asked.chains(0).maps().begin(), asked.chains(0).maps().end()});
  return true;
}

const std::map<std::string, Make>& Rpcs() {
  using S = v1::ShapeService;
  using H = v1::HloService;
  using I = v1::IndexingService;
  static const std::map<std::string, Make> rpcs = {
      {"ShapeService/DescribeShape", Asked<S, v1::DescribeShapeRequest, v1::DescribeShapeResponse>(&S::Stub::DescribeShape, DescribeShape)},
      {"ShapeService/ByteSize", Asked<S, v1::ByteSizeRequest, v1::ByteSizeResponse>(&S::Stub::ByteSize, ByteSize)},
      {"ShapeService/LinearIndex", Asked<S, v1::LinearIndexRequest, v1::LinearIndexResponse>(&S::Stub::LinearIndex, LinearIndex)},
      {"ShapeService/LinearIndices", BothWays<S>(&S::Stub::LinearIndices)},
      {"ShapeService/MultiIndex", Asked<S, v1::MultiIndexRequest, v1::MultiIndexResponse>(&S::Stub::MultiIndex, MultiIndex)},
      {"ShapeService/MultiIndices", BothWays<S>(&S::Stub::MultiIndices)},
      {"HloService/UploadModule", Requests<H>(&H::Stub::UploadModule)},
      {"HloService/PutModule", Asked<H, v1::PutModuleRequest, v1::PutModuleResponse>(&H::Stub::PutModule, PutModule)},
      {"HloService/GetModule", Asked<H, v1::GetModuleRequest, v1::GetModuleResponse>(&H::Stub::GetModule, GetModule)},
      {"HloService/DeleteModule", Asked<H, v1::DeleteModuleRequest, v1::DeleteModuleResponse>(&H::Stub::DeleteModule, DeleteModule)},
      {"HloService/ListInstructions", Unary<H>(&H::Stub::ListInstructions)},
      {"IndexingService/IndexingMaps", Public(&C::IndexingMaps)},
      {"IndexingService/ParseMap", Asked<I, v1::ParseMapRequest, v1::ParseMapResponse>(&I::Stub::ParseMap, ParseMap)},
      {"IndexingService/SimplifyMap", Asked<I, v1::SimplifyMapRequest, v1::SimplifyMapResponse>(&I::Stub::SimplifyMap, SimplifyMap)},
      {"IndexingService/ComposeMaps", Asked<I, v1::ComposeMapsRequest, v1::ComposeMapsResponse>(&I::Stub::ComposeMaps, ComposeMaps)},
      {"IndexingService/EvaluateMap", Unary<I>(&I::Stub::EvaluateMap)},
      {"IndexingService/EvaluateMapBatch", BothWays<I>(&I::Stub::EvaluateMapBatch)},
      {"ReportService/Collectives", Public(&C::Collectives)},
      {"ReportService/Copies", Public(&C::Copies)},
      {"ReportService/Cost", Public(&C::Cost)},
      {"ReportService/Reads", Public(&C::Reads)},
      {"ReportService/Diff", Public(&C::Diff)},
      {"ReportService/Equivalent", Public(&C::Equivalent)},
      {"ReportService/Summary", Public(&C::Summary)},
      {"ReportService/Tile", Public(&C::Tile)},
      {"ReportService/Verify", Public(&C::Verify)},
      {"ReportService/Why", Public(&C::Why)},
      {"ReportService/Size", Public(&C::Size)},
      {"ReportService/Profile", Public(&C::Profile)},
      {"ReportService/Memory", Public(&C::Memory)},
      {"ViewService/Recognize", Public(&C::Recognize)},
      {"ViewService/Draw", Public(&C::Draw)},
      {"ViewService/GetText", Public(&C::GetText)},
      {"ViewService/Graph", Public(&C::Graph)},
  };
  return rpcs;
}

xlashape::Client Started(const conformance::Start& start) {
  if (start.transport() != conformance::TRANSPORT_GRPC) throw std::runtime_error("unknown transport");
  xlashape::Options options;
  Token() = start.token();
  if (!start.token().empty()) options.token_source = [] { return Token(); };
  options.max_answer_bytes = 4 << 20;  // what gRPC receives by default has to do
  options.addresses = {start.more_addresses().begin(), start.more_addresses().end()};
  if (!start.root_certificates().empty()) {
    options.tls.emplace();
    options.tls->root_certificates = start.root_certificates();
    options.tls->certificate_chain = start.client_certificate();
    options.tls->private_key = start.client_key();
  }
  return xlashape::Client(start.address(), options);
}

/// Numbers and bools of values, as the message of an RPC that has them.
template <class Answer, class Numbers, class Bools>
Answer Filled(const Numbers& numbers, const Bools& bools, google::protobuf::RepeatedField<std::int64_t>* (Answer::*mutable_numbers)(),
              google::protobuf::RepeatedField<bool>* (Answer::*mutable_bools)()) {
  Answer answer;
  (answer.*mutable_numbers)()->Add(numbers.begin(), numbers.end());
  (answer.*mutable_bools)()->Add(bools.begin(), bools.end());
  return answer;
}

v1::EvaluateMapResponse Filled(const xlashape::Values& values) {
  return Filled<v1::EvaluateMapResponse>(values.results, values.in_domain, &v1::EvaluateMapResponse::mutable_results,
                                         &v1::EvaluateMapResponse::mutable_in_domain);
}

void Evaluate(const xlashape::Client& client, const conformance::Evaluation& evaluation, conformance::Response* response) {
  const bool is_text = evaluation.map_case() == conformance::Evaluation::kText;  // which the server reads
  const v1::IndexingMap message = is_text ? client.ParseMap(evaluation.text()).map() : Parsed<v1::IndexingMap>(evaluation.message());
  const std::vector<std::int64_t> points(evaluation.points().begin(), evaluation.points().end());
  if (!message.fits_int64()) {
    Add(Filled(client.EvaluateMap(message, points)), response);
    return;
  }
  const xlashape::EvaluableMap map(message);
  if (evaluation.batch()) {
    Add(Filled(map.EvaluateBatch(points, evaluation.count())), response);
    return;
  }
  xlashape::Values values;
  const std::size_t width = evaluation.count() == 0 ? 0 : points.size() / evaluation.count();
  for (std::size_t i = 0; i < evaluation.count(); ++i) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(i * width);
    const auto results = map.Evaluate({begin, begin + static_cast<std::ptrdiff_t>(width)});
    values.in_domain.push_back(results.has_value());
    const std::vector<std::int64_t> shown = results.value_or(std::vector<std::int64_t>(map.results()));
    values.results.insert(values.results.end(), shown.begin(), shown.end());
  }
  Add(Filled(values), response);
}

void Bulk(const xlashape::Client& client, const conformance::Bulk& bulk, conformance::Response* response) {
  const std::vector<std::int64_t> numbers(bulk.numbers().begin(), bulk.numbers().end());
  if (bulk.rpc() == "ShapeService/LinearIndices") {
    const auto first = Parsed<v1::LinearIndicesRequest>(bulk.request());
    const auto positions = client.LinearIndices(first.shape(), numbers, first.order());
    v1::LinearIndexResponse answer;
    answer.mutable_positions()->Add(positions.begin(), positions.end());
    Add(answer, response);
  } else if (bulk.rpc() == "ShapeService/MultiIndices") {
    const auto first = Parsed<v1::MultiIndicesRequest>(bulk.request());
    const auto found = client.MultiIndices(first.shape(), numbers, first.order());
    Add(Filled<v1::MultiIndexResponse>(found.indices, found.is_element, &v1::MultiIndexResponse::mutable_indices,
                                       &v1::MultiIndexResponse::mutable_is_element),
        response);
  } else {
    const auto first = Parsed<v1::EvaluateMapBatchRequest>(bulk.request());
    Add(Filled(client.EvaluateMap(first.map(), numbers)), response);
  }
}

/// The reader of an upload fails.
struct ReaderFailed : std::exception {};

/// Gives the content of an upload, some bytes at a time.
class Pieces : public std::streambuf {
 public:
  explicit Pieces(const conformance::Upload& upload) : upload_(upload) {}

 private:
  int_type underflow() override {
    const std::size_t left = upload_.content().size() - at_;
    if (left == 0) return upload_.reader_fails() ? throw ReaderFailed() : traits_type::eof();
    const std::size_t size = std::min<std::size_t>(left, upload_.read_bytes());
    char* const begin = const_cast<char*>(upload_.content().data()) + at_;
    setg(begin, begin, begin + size);
    at_ += size;
    return traits_type::to_int_type(*begin);
  }

  const conformance::Upload& upload_;
  std::size_t at_ = 0;
};

void Upload(const xlashape::Client& client, const conformance::Upload& upload, conformance::Response* response) {
  xlashape::Uploaded uploaded;
  if (upload.read_bytes() == 0) {
    uploaded = client.UploadModule(upload.content());
  } else {
    Pieces pieces(upload);
    std::istream from(&pieces);
    from.exceptions(std::ios::badbit);
    try {
      uploaded = client.UploadModule(from, [response](std::int64_t sent) { response->add_progress(sent); });
    } catch (const ReaderFailed&) {
      response->set_reader_failed(true);
      return;
    }
  }
  response->set_sent(uploaded.sent);
  Add(uploaded.module, response);
}

void Do(const conformance::Request& request, std::optional<xlashape::Client>* client, conformance::Response* response) {
  switch (request.action_case()) {
    case conformance::Request::kStart:
      *client = Started(request.start());
      return;
    case conformance::Request::kCall:
      if (!request.call().token().empty()) Token() = request.call().token();
      Rpcs().at(request.call().rpc())(**client, request.call(), response);
      return;
    case conformance::Request::kEvaluation:
      Evaluate(**client, request.evaluation(), response);
      return;
    case conformance::Request::kUpload: {
      Upload(**client, request.upload(), response);
      return;
    }
    case conformance::Request::kPages:
      if (request.pages().rpc() == "HloService/ListInstructions") {
        for (const auto& item : (*client)->ListInstructions(Parsed<v1::ListInstructionsRequest>(request.pages().request()))) Add(item, response);
      } else {
        for (const auto& row : (*client)->SizeRows(Parsed<v1::SizeRequest>(request.pages().request()))) Add(row, response);
      }
      return;
    case conformance::Request::kBulk:
      Bulk(**client, request.bulk(), response);
      return;
    default:
      throw std::runtime_error("unknown action");
  }
}

void Report(const xlashape::Error& error, conformance::Error* to) {
  to->set_code(error.code());
  to->set_reason(error.reason());
  to->set_message(error.message());
  to->set_field(error.field());
  to->set_line(error.line());
  to->set_column(error.column());
  to->mutable_details()->insert(error.details().begin(), error.details().end());
}

/// The next message of standard input; nothing at its end.
std::optional<std::string> ReadMessage() {
  std::uint64_t size = 0;
  for (int shift = 0;; shift += 7) {
    const int byte = std::getchar();
    if (byte == EOF) return std::nullopt;
    size |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) break;
  }
  std::string data(size, '\0');
  if (std::fread(data.data(), 1, size, stdin) != size) throw std::runtime_error("standard input ends within a message");
  return data;
}

void WriteMessage(const std::string& data) {
  std::size_t size = data.size();
  for (; size >= 0x80; size >>= 7) std::putchar(static_cast<int>(size & 0x7F) | 0x80);
  std::putchar(static_cast<int>(size));
  std::fwrite(data.data(), 1, data.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::optional<xlashape::Client> client;
  while (const auto data = ReadMessage()) {
    conformance::Response response;
    try {
      Do(Parsed<conformance::Request>(*data), &client, &response);
    } catch (const xlashape::Error& error) {
      Report(error, response.mutable_error());
    } catch (const std::exception& error) {
      response.set_failure(error.what());
    }
    WriteMessage(response.SerializeAsString());
  }
}
