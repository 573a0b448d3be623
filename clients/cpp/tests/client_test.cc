#include "xlashape/client.h"

#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "sha256.h"
#include "xlashape/client/status_details.pb.h"
#include "xlashape/v1/hlo_service.grpc.pb.h"
#include "xlashape/v1/indexing_service.grpc.pb.h"
#include "xlashape/v1/shape_service.grpc.pb.h"

namespace xlashape {
namespace {

using std::chrono::milliseconds;

/// Answers ByteSize as it is told.
class Shapes final : public v1::ShapeService::Service {
 public:
  using Answer = std::function<grpc::Status(grpc::ServerContext*, const v1::ByteSizeRequest&, v1::ByteSizeResponse*)>;
  explicit Shapes(Answer answer) : answer_(std::move(answer)) {}
  grpc::Status ByteSize(grpc::ServerContext* context, const v1::ByteSizeRequest* request, v1::ByteSizeResponse* response) override {
    return answer_(context, *request, response);
  }

 private:
  Answer answer_;
};

/// Has pages of two instructions each, and one module.
class Modules final : public v1::HloService::Service {
 public:
  grpc::Status ListInstructions(grpc::ServerContext*, const v1::ListInstructionsRequest* request, v1::ListInstructionsResponse* response) override {
    const int first = request->page_token().empty() ? 0 : std::stoi(request->page_token());
    ++pages;
    if (first == 6) return {grpc::StatusCode::NOT_FOUND, "the module is gone"};
    if (first == 2) {  // a page may be empty
      response->set_next_page_token("4");
      return grpc::Status::OK;
    }
    for (int i = first; i < first + 2; ++i) response->add_instructions()->set_name(std::to_string(i));
    response->set_next_page_token(std::to_string(first + 2));
    return grpc::Status::OK;
  }
  grpc::Status GetModule(grpc::ServerContext*, const v1::GetModuleRequest* request, v1::GetModuleResponse* response) override {
    if (content.empty() || request->name() != "modules/" + Sha256(content)) return {grpc::StatusCode::NOT_FOUND, "no such module"};
    response->mutable_module()->set_name(request->name());
    response->mutable_module()->set_size_bytes(static_cast<std::int64_t>(content.size()));
    if (request->include_content()) response->set_content(content.substr(static_cast<std::size_t>(request->content_offset()), 700000));
    return grpc::Status::OK;
  }
  grpc::Status UploadModule(grpc::ServerContext*, grpc::ServerReader<v1::UploadModuleRequest>* reader, v1::UploadModuleResponse* response) override {
    v1::UploadModuleRequest part;
    std::string digest;
    content.clear();
    while (reader->Read(&part)) {
      if (content.empty()) digest = part.sha256();
      content += part.data();
    }
    if (part.more_follows()) return {grpc::StatusCode::INVALID_ARGUMENT, "cut off"};
    if (!digest.empty() && digest != Sha256(content)) return {grpc::StatusCode::INVALID_ARGUMENT, "another digest"};
    response->mutable_module()->set_name("modules/" + Sha256(content));
    return grpc::Status::OK;
  }

  std::atomic<int> pages{0};
  std::string content;
};

/// Has three maps of any instruction.
class Indexing final : public v1::IndexingService::Service {
 public:
  grpc::Status IndexingMaps(grpc::ServerContext*, const v1::IndexingMapsRequest* request, v1::IndexingMapsResponse* response) override {
    for (int i = 0; i < 3; ++i) response->add_maps()->set_instruction(request->instruction());
    return grpc::Status::OK;
  }
};

/// A server with some services, at a port of its own or at an address.
class Running {
 public:
  explicit Running(const std::vector<grpc::Service*>& services, const std::string& address = "127.0.0.1:0") {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    for (grpc::Service* service : services) builder.RegisterService(service);
    server_ = builder.BuildAndStart();
    this->address = "127.0.0.1:" + std::to_string(port);
  }
  ~Running() { server_->Shutdown(std::chrono::system_clock::now() + milliseconds(100)); }

  std::string address;

 private:
  std::unique_ptr<grpc::Server> server_;
};

grpc::Status Sized(std::int64_t bytes, v1::ByteSizeResponse* response) {
  response->add_sizes()->set_physical_bytes(bytes);
  return grpc::Status::OK;
}

/// The error that `function` throws.
template <class Function>
Error Thrown(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing is thrown";
  return Error({});
}

std::string Details(const std::string& type, const std::string& domain) {
  client::details::ErrorInfo info;
  info.set_reason("PARSE");
  info.set_domain(domain);
  *info.mutable_metadata() = {};
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"message", "expected a size"}, {"field", "shapes[0].text"}, {"line", "1"}, {"column", "5"}, {"source_line", "f32[?]"}}) {
    (*info.mutable_metadata())[name] = value;
  }
  client::details::Status status;
  auto* detail = status.add_details();
  detail->set_type_url("type.googleapis.com/google.rpc." + type);
  detail->set_value(info.SerializeAsString());
  return status.SerializeAsString();
}

TEST(Error, HasTheServersDetails) {
  const std::string details = Details("ErrorInfo", "xlashape");
  Shapes shapes([&](auto*, const auto&, auto*) { return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "shapes[0].text: …", details); });
  const Running server({&shapes});
  const Error error = Thrown([&] { Client(server.address).ByteSize("f32[?]"); });
  EXPECT_EQ(error.code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(error.reason(), "PARSE");
  EXPECT_EQ(error.message(), "expected a size");
  EXPECT_EQ(error.field(), "shapes[0].text");
  EXPECT_EQ(error.line(), 1);
  EXPECT_EQ(error.column(), 5);
  EXPECT_EQ(error.details(), (std::map<std::string, std::string>{{"source_line", "f32[?]"}}));
  EXPECT_EQ(error.serialized_status(), details);
  EXPECT_STREQ(error.what(), "xlashape: shapes[0].text: line 1, column 5: expected a size (PARSE)");
}

TEST(Error, TakesOnlyDetailsOfXlashape) {
  for (const std::string& details : {Details("ErrorInfo", "elsewhere.example"), Details("BadRequest", "xlashape"), std::string("\xff\xff"), std::string()}) {
    const Error error = Thrown([&] { Check(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "no", details)); });
    EXPECT_EQ(error.reason(), "");
    EXPECT_EQ(error.message(), "no");
    EXPECT_STREQ(error.what(), "xlashape: no (PERMISSION_DENIED)");
  }
  Check(grpc::Status::OK);
  EXPECT_EQ(CodeName(static_cast<grpc::StatusCode>(99)), "UNKNOWN");
  EXPECT_EQ(CodeName(grpc::StatusCode::UNAUTHENTICATED), "UNAUTHENTICATED");
}

TEST(Client, AsksForTheTokenOfEachCall) {
  std::vector<std::string> seen;
  Shapes shapes([&](grpc::ServerContext* context, const auto&, auto* response) {
    const auto found = context->client_metadata().find("authorization");
    seen.emplace_back(found->second.data(), found->second.size());
    return Sized(1, response);
  });
  const Running server({&shapes});
  Options options;
  int number = 0;
  options.token_source = [&] { return std::to_string(++number); };
  const Client client(server.address, options);
  client.WaitUntilReady();
  client.ByteSize(std::string_view("f32[]"));
  EXPECT_EQ(seen, (std::vector<std::string>{"Bearer 1", "Bearer 2"}));
  EXPECT_NE(Thrown([] { Client("127.0.0.1:1").WaitUntilReady(milliseconds(200)); }).code(), grpc::StatusCode::OK);
}

/// Notes the method of each call, and adds a header to it.
class Noting final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateClientInterceptor(grpc::experimental::ClientRpcInfo* info) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    methods.insert(info->method());
    return new Header;
  }

  std::set<std::string> methods;

 private:
  class Header final : public grpc::experimental::Interceptor {
    void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
      if (batch->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
        batch->GetSendInitialMetadata()->insert({"x-example", "1"});
      }
      batch->Proceed();
    }
  };

  std::mutex mutex_;
};

TEST(Client, LetsInterceptorsSeeEachCallToEachServer) {
  std::atomic<int> marked[2] = {{0}, {0}};
  const auto counting = [](std::atomic<int>* count) {
    return [count](grpc::ServerContext* context, const v1::ByteSizeRequest&, v1::ByteSizeResponse* response) {
      *count += static_cast<int>(context->client_metadata().count("x-example"));
      return Sized(4, response);
    };
  };
  Shapes first(counting(&marked[0])), second(counting(&marked[1]));
  Indexing indexing, other;
  const Running one({&first, &indexing}), another({&second, &other});
  const auto noting = std::make_shared<Noting>();
  Options options;
  options.addresses = {another.address};
  options.interceptors = {noting};
  const Client client(one.address, options);
  // The second server may be connected later than the first.
  for (int i = 0; i < 1000 && (marked[0] == 0 || marked[1] == 0); ++i) client.ByteSize("f32[]");
  EXPECT_GT(marked[0], 0);
  EXPECT_GT(marked[1], 0);
  v1::IndexingMapsRequest request;
  request.set_instruction("three");
  int maps = 0;
  for (const auto& row : client.IndexingMapsRows(request)) maps += row.instruction() == "three";
  EXPECT_EQ(maps, 3);
  EXPECT_EQ(noting->methods,
            (std::set<std::string>{"/xlashape.v1.ShapeService/ByteSize", "/xlashape.v1.IndexingService/IndexingMaps"}));
}

TEST(Client, EndsCallsFromAnotherThread) {
  Shapes shapes([](grpc::ServerContext* context, const auto&, auto* response) {
    while (!context->IsCancelled()) std::this_thread::sleep_for(milliseconds(1));
    return Sized(1, response);
  });
  Indexing indexing;
  const Running server({&shapes, &indexing});
  const Cancellation cancellation;
  const Client client = Client(server.address).WithCancellation(cancellation);
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(50));
    cancellation.Cancel();
  });
  EXPECT_EQ(Thrown([&] { client.ByteSize("f32[]"); }).code(), grpc::StatusCode::CANCELLED);
  other.join();
  EXPECT_EQ(Thrown([&] { client.ByteSize("f32[]"); }).code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(Thrown([&] { client.IndexingMaps({}); }).code(), grpc::StatusCode::CANCELLED);
}

TEST(Client, EndsCallsInTime) {
  Shapes shapes([](grpc::ServerContext* context, const auto&, auto*) {
    while (!context->IsCancelled()) std::this_thread::sleep_for(milliseconds(5));
    return grpc::Status::CANCELLED;
  });
  const Running server({&shapes});
  Options options;
  options.timeout = milliseconds(50);
  const Client client(server.address, options);
  EXPECT_EQ(Thrown([&] { client.ByteSize("f32[]"); }).code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(Thrown([&] { Client(server.address).WithTimeout(milliseconds(20)).ByteSize("f32[]"); }).code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST(Client, TakesAnyTimeout) {
  Shapes shapes([](auto*, const auto&, auto* response) { return Sized(96, response); });
  const Running server({&shapes});
  for (const milliseconds timeout : {milliseconds(0), milliseconds(-5), milliseconds::max(), milliseconds(60000)}) {
    EXPECT_EQ(Client(server.address).WithTimeout(timeout).ByteSize("f32[]").physical_bytes(), 96);
  }
}

TEST(Client, RepeatsCallsWhileTheServerIsUnavailable) {
  std::atomic<int> calls{0};
  Shapes shapes([&](auto*, const auto&, auto* response) {
    return ++calls < 3 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting") : Sized(96, response);
  });
  const Running server({&shapes});
  EXPECT_EQ(Client(server.address).ByteSize("f32[]").physical_bytes(), 96);
  EXPECT_EQ(calls, 3);
  calls = 0;
  Options once;
  once.attempts = 1;
  EXPECT_EQ(Thrown([&] { Client(server.address, once).ByteSize("f32[]"); }).code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(calls, 1);
}

TEST(Client, SaysWhenNoServerIsThere) {
  Options options;
  options.attempts = 1;
  const Error error = Thrown([&] { Client("127.0.0.1:1", options).ByteSize("f32[]"); });
  EXPECT_EQ(error.code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(error.reason(), "");
}

TEST(Client, RefusesWrongOptions) {
  EXPECT_EQ(Thrown([] { Client(""); }).field(), "address");
  Options options;
  options.attempts = 6;
  EXPECT_EQ(Thrown([&] { Client("localhost:1", options); }).field(), "attempts");
  options.attempts = 4;
  options.addresses = {""};
  EXPECT_EQ(Thrown([&] { Client("127.0.0.1:1", options); }).field(), "address");
  options.addresses = {"no-such-host.invalid:50051"};
  EXPECT_EQ(Thrown([&] { Client("127.0.0.1:1", options).ByteSize("f32[]"); }).code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(Client, SpeaksOverUnixSocketsWithAToken) {
  const std::string address = "unix:" + testing::TempDir() + "xlashape-test-" + std::to_string(getpid());
  std::string sent;
  Shapes shapes([&](grpc::ServerContext* context, const auto&, auto* response) {
    const auto found = context->client_metadata().find("authorization");
    if (found != context->client_metadata().end()) sent.assign(found->second.data(), found->second.size());
    return Sized(1, response);
  });
  const Running server({&shapes}, address);
  Options options;
  options.token = "secret";
  Client(address, options).ByteSize("f32[]");
  EXPECT_EQ(sent, "Bearer secret");
}

TEST(Client, AsksAllAddresses) {
  Shapes one([](auto*, const auto&, auto* response) { return Sized(1, response); });
  Shapes two([](auto*, const auto&, auto* response) { return Sized(2, response); });
  const Running first({&one});
  const Running second({&two});
  Options options;
  options.addresses = {second.address};
  const Client client(first.address, options);
  std::set<std::int64_t> seen;
  for (int i = 0; i < 500 && seen.size() < 2; ++i) seen.insert(client.ByteSize("f32[]").physical_bytes());
  EXPECT_EQ(seen, (std::set<std::int64_t>{1, 2}));
}

TEST(Client, AsksAnotherServerWhileOneRefuses) {
  std::atomic<int> refused{0};
  Shapes one([&](auto*, const auto&, auto*) {
    ++refused;
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "stopping");
  });
  Shapes two([](auto*, const auto&, auto* response) { return Sized(2, response); });
  const Running first({&one});
  const Running second({&two});
  Options options;
  options.attempts = 2;
  options.addresses = {second.address, "127.0.0.1:1"};
  const Client client(first.address, options);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.ByteSize("f32[]").physical_bytes(), 2);
  EXPECT_GT(refused, 0);
  options.addresses = {first.address};
  refused = 0;
  EXPECT_EQ(Thrown([&] { Client(first.address, options).ByteSize("f32[]"); }).code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused, 2);
}

/// Its port takes connections, and nobody reads them.
TEST(Client, IsNotHeldByASilentServer) {
  const int listening = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listening, reinterpret_cast<sockaddr*>(&place), sizeof(place)), 0);
  ASSERT_EQ(listen(listening, 8), 0);
  socklen_t size = sizeof(place);
  getsockname(listening, reinterpret_cast<sockaddr*>(&place), &size);
  const std::string silent = "127.0.0.1:" + std::to_string(ntohs(place.sin_port));
  Shapes shapes([](auto*, const auto&, auto* response) { return Sized(1, response); });
  const Running live({&shapes});
  Options options;
  options.addresses = {live.address};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Client(silent, options).WithTimeout(std::chrono::seconds(15)).ByteSize("f32[]").physical_bytes(), 1);
  const Cancellation cancellation;
  options.addresses = {silent};
  std::thread cancelling([&] { cancellation.Cancel(); });
  EXPECT_EQ(Thrown([&] { Client(silent, options).WithCancellation(cancellation).ByteSize("f32[]"); }).code(), grpc::StatusCode::CANCELLED);
  cancelling.join();
  close(listening);
}

TEST(Client, RefusesAnswersThatLackItems) {
  Shapes shapes([](auto*, const auto&, auto*) { return grpc::Status::OK; });
  const Running server({&shapes});
  EXPECT_EQ(Thrown([&] { Client(server.address).ByteSize("f32[]"); }).reason(), "INVALID_ANSWER");
}

TEST(Client, SendsShapesInEachForm) {
  v1::ByteSizeRequest seen;
  Shapes shapes([&](auto*, const v1::ByteSizeRequest& request, v1::ByteSizeResponse* response) {
    seen = request;
    for (int i = 1; i < request.shapes_size(); ++i) Sized(i, response);
    return Sized(0, response);
  });
  const Running server({&shapes});
  v1::Shape fields;
  fields.set_element_type(v1::ELEMENT_TYPE_F32);
  Client(server.address).ByteSizes({"f32[3]", std::string("f32[]"), SerializedShape("\x10\x0b"), fields});
  ASSERT_EQ(seen.shapes_size(), 4);
  EXPECT_EQ(seen.shapes(0).text(), "f32[3]");
  EXPECT_EQ(seen.shapes(1).text(), "f32[]");
  EXPECT_EQ(seen.shapes(2).serialized(), "\x10\x0b");
  EXPECT_EQ(seen.shapes(3).shape().element_type(), v1::ELEMENT_TYPE_F32);
}

TEST(Sequence, FetchesPagesAsTheyAreNeeded) {
  Modules modules;
  const Running server({&modules});
  const Client client(server.address);
  std::vector<std::string> names;
  const Error error = Thrown([&] {
    for (const auto& instruction : client.ListInstructions({})) names.push_back(instruction.name());
  });
  EXPECT_EQ(error.code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(names, (std::vector<std::string>{"0", "1", "4", "5"}));
  modules.pages = 0;
  auto sequence = client.ListInstructions({});
  EXPECT_EQ(modules.pages, 0);
  auto one = sequence.begin();
  EXPECT_EQ(one->name(), "0");
  EXPECT_EQ((++one)->name(), "1");
  EXPECT_EQ(modules.pages, 1);
}

TEST(Modules, AreSentOnceAndComeBack) {
  Modules modules;
  const Running server({&modules});
  const Client client(server.address);
  std::string content(2500000, 'x');
  for (std::size_t i = 0; i < content.size(); i += 1000) content[i] = static_cast<char>(i / 1000);
  const std::string path = testing::TempDir() + "xlashape-module-" + std::to_string(getpid());
  std::ofstream(path, std::ios::binary) << content;
  const Uploaded first = client.UploadModuleFile(path);
  std::remove(path.c_str());
  EXPECT_TRUE(first.sent);
  EXPECT_FALSE(client.UploadModule(content).sent);
  EXPECT_EQ(client.DownloadModule(first.module.name()), content);
  std::istringstream reader(content);
  std::vector<std::int64_t> told;
  EXPECT_EQ(client.UploadModule(reader, [&](std::int64_t bytes) { told.push_back(bytes); }).module.name(), first.module.name());
  EXPECT_EQ(told, (std::vector<std::int64_t>{1 << 20, 2 << 20, 2500000}));
  std::istringstream again(content);
  EXPECT_THROW(client.UploadModule(again, [](std::int64_t) { throw std::range_error("enough"); }), std::range_error);
  EXPECT_EQ(Thrown([&] { client.UploadModuleFile(path); }).field(), "path");
  EXPECT_EQ(Thrown([&] { client.UploadModuleFile(testing::TempDir()); }).field(), "path");
}

TEST(Sha256, HasTheValuesOfTheStandard) {
  EXPECT_EQ(Sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(Sha256(std::string(55, 'a')), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(Sha256(std::string(64, 'a')), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

/// A program may link XLA's own schema, and google.rpc's. Their names must be free.
TEST(Schema, LeavesTheNamesOfOthersFree) {
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  EXPECT_NE(pool->FindFileByName("xlashape/v1/types.proto"), nullptr);
  for (const char* file : {"xla/xla_data.proto", "google/rpc/status.proto", "google/rpc/error_details.proto"}) {
    EXPECT_EQ(pool->FindFileByName(file), nullptr) << file;
  }
}

}  // namespace
}  // namespace xlashape
