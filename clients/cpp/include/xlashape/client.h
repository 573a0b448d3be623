/// @file
/// The client of an xlashape server.

#ifndef XLASHAPE_CLIENT_H_
#define XLASHAPE_CLIENT_H_

#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xlashape/error.h"
#include "xlashape/map.h"
#include "xlashape/sequence.h"
#include "xlashape/v1/hlo_service.pb.h"
#include "xlashape/v1/indexing_service.pb.h"
#include "xlashape/v1/shape_service.pb.h"

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
  /// The host name that the server's certificate is for. Empty: that of the first address.
  std::string server_name;
};

/// How a Client connects, and how it makes its calls.
struct Options {
  /// Encrypts the connection. Without it, everything travels readably.
  std::optional<Tls> tls;
  /// A bearer token that is sent with each call.
  std::string token;
  /// How long each call may take, a stream with all its messages. 0: as long as it takes.
  std::chrono::milliseconds timeout = std::chrono::minutes(1);
  /// How often a call is sent in all while the server is unavailable, from 1 to 5, with growing, random pauses from 100 ms. A call is not sent again after
  /// its answer has begun.
  int attempts = 4;
  /// Further servers, HOST:PORT each, that have the same modules. Calls go to all in turn, and to the others while one does not answer. Several addresses
  /// are looked up once, when the client is made.
  std::vector<std::string> addresses;
  /// The bytes that one message from the server may have.
  int max_answer_bytes = 64 << 20;
  /// Further settings of gRPC's.
  grpc::ChannelArguments channel_arguments;
};

/// A shape as the bytes of an xla.ShapeProto.
v1::ShapeInput SerializedShape(std::string proto);

/// A shape in any form: XLA's text, in which a missing layout stands for the default layout, or a message. For parameters.
class AnyShape {
 public:
  /// A shape in XLA's text.
  AnyShape(const char* text) { input_.set_text(text); }
  /// A shape in XLA's text.
  AnyShape(std::string text) { input_.set_text(std::move(text)); }
  /// A shape as a request has it.
  AnyShape(v1::ShapeInput input) : input_(std::move(input)) {}
  /// A shape as fields.
  AnyShape(v1::Shape shape) { *input_.mutable_shape() = std::move(shape); }

  /// The shape as a request has it.
  const v1::ShapeInput& input() const { return input_; }

 private:
  v1::ShapeInput input_;
};

/// A map in any form: text, a message, or a Map. For parameters.
class AnyMap {
 public:
  /// A map in text.
  AnyMap(const char* text) { input_.set_text(text); }
  /// A map in text.
  AnyMap(std::string text) { input_.set_text(std::move(text)); }
  /// A map as a request has it.
  AnyMap(v1::MapInput input) : input_(std::move(input)) {}
  /// A map as fields.
  AnyMap(v1::IndexingMap map) { *input_.mutable_map() = std::move(map); }
  /// A map that is checked.
  AnyMap(const Map& map) { *input_.mutable_map() = map.message(); }

  /// The map as a request has it.
  const v1::MapInput& input() const { return input_; }

 private:
  v1::MapInput input_;
};

/// The elements at some positions of a buffer.
struct Elements {
  /// The indices one after another, each with one number for every dimension of the shape. The numbers of a position that is padding are -1.
  std::vector<std::int64_t> indices;
  /// For each position, whether it holds an element. If not, it is padding.
  std::vector<bool> is_element;
};

/// A module that was uploaded.
struct Uploaded {
  /// The server's description of it. Its name is what requests take: `request.mutable_module()->set_name(uploaded.module.name())`.
  v1::Module module;
  /// Whether the content was sent. Not if the server had it already.
  bool sent = false;
};

/// Asks one server, or several that have the same modules. Threads may share a client. Copies share the connection, which ends with the last of them and
/// of its streams.
///
/// Every function throws an Error if the server refuses, or cannot be reached.
class Client {
 public:
  /// Makes a client of the server at an address: HOST:PORT, `unix:PATH`, or any other target of gRPC such as `dns:///HOST:PORT`, which spreads calls over
  /// all addresses of the name. The connection is made by the first call, and again whenever it breaks.
  explicit Client(const std::string& address, const Options& options = {});

  /// The same client, whose calls may take another time. 0: as long as they take.
  Client WithTimeout(std::chrono::milliseconds timeout) const;

  /// @name Shapes
  /// @{

  /// Describes a shape: its canonical text, sizes, layout, and why its buffer is larger than its elements.
  v1::ShapeDescription DescribeShape(const AnyShape& shape) const;

  /// Describes each shape, in one call.
  std::vector<v1::ShapeDescription> DescribeShapes(const std::vector<AnyShape>& shapes) const;

  /// The sizes of a shape in elements and bytes.
  v1::ShapeSize ByteSize(const AnyShape& shape) const;

  /// The sizes of each shape, in one call.
  std::vector<v1::ShapeSize> ByteSizes(const std::vector<AnyShape>& shapes) const;

  /// The position in the buffer, in elements, of the element at an index.
  std::int64_t LinearIndex(const AnyShape& shape, const std::vector<std::int64_t>& index) const;

  /// The positions of the elements at any number of indices, which stand one after another, each with one number for every dimension of the shape. Many
  /// indices are sent as a stream. Not for scalars, whose indices have no numbers.
  std::vector<std::int64_t> LinearIndices(const AnyShape& shape, const std::vector<std::int64_t>& indices,
                                          v1::LinearOrder order = v1::LINEAR_ORDER_PHYSICAL) const;

  /// The index of the element at a position of the buffer; nothing if the position is padding.
  std::optional<std::vector<std::int64_t>> MultiIndex(const AnyShape& shape, std::int64_t position) const;

  /// The elements at any number of positions. Many positions are sent as a stream.
  Elements MultiIndices(const AnyShape& shape, const std::vector<std::int64_t>& positions,
                        v1::LinearOrder order = v1::LINEAR_ORDER_PHYSICAL) const;

  /// @}
  /// @name Modules
  /// @{

  /// Stores a module: HLO text, or a serialized xla.HloModuleProto or xla.HloProto. A module that the server has already is not sent again.
  Uploaded UploadModule(std::string_view content) const;

  /// Stores the module in a file.
  Uploaded UploadModuleFile(const std::string& path) const;

  /// Describes a stored module by its name, `modules/{sha256}`. The code of the Error is NOT_FOUND if the server does not have it, or no longer.
  v1::Module GetModule(const std::string& name) const;

  /// The content of a stored module, as it was uploaded.
  std::string DownloadModule(const std::string& name) const;

  /// Writes the content of a stored module, and returns the number of bytes. It ends early when `to` fails, as its state says then.
  std::int64_t DownloadModule(const std::string& name, std::ostream& to) const;

  /// Removes a stored module.
  void DeleteModule(const std::string& name) const;

  /// The instructions of a module, in pages that are fetched as they are needed.
  Sequence<v1::Instruction> ListInstructions(v1::ListInstructionsRequest request) const;

  /// The bytes that the results of a module's instructions take, in pages that are fetched as they are needed.
  Sequence<v1::InstructionSize> InstructionSizes(v1::ByteSizesRequest request) const;

  /// @}
  /// @name What instructions read
  /// @{

  /// The maps of a module's instructions, or of one, as a stream.
  Sequence<v1::IndexingMapsResponse> IndexingMaps(const v1::IndexingMapsRequest& request) const;

  /// The maps of one instruction.
  v1::InstructionMapsResponse InstructionMaps(const v1::InstructionMapsRequest& request) const;

  /// How efficiently a module's instructions, or one, read their operands, as a stream.
  Sequence<v1::OperandReadsResponse> OperandReads(const v1::OperandReadsRequest& request) const;

  /// The tile of each operand that a tile of an instruction's output reads.
  v1::OperandTilesResponse OperandTiles(const v1::OperandTilesRequest& request) const;

  /// @}
  /// @name Maps
  /// @{

  /// Simplifies a map.
  v1::MapOutput SimplifyMap(const AnyMap& map) const;

  /// The composition of two or more maps, the first of which is applied first.
  v1::MapOutput ComposeMaps(const std::vector<AnyMap>& chain) const;

  /// Lets the server evaluate a map at any number of points, which stand one after another, each with one number for every variable. Many points are sent
  /// as a stream. Not for a map without variables, whose points have no numbers. Map does the same without the server.
  Values EvaluateMap(const AnyMap& map, const std::vector<std::int64_t>& points) const;

  /// @}
  /// @name Calls with generated stubs
  /// @{

  /// The connection, for calls that the functions above do not cover, and for other services of the server:
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
  class Connection;
  std::shared_ptr<const Connection> connection_;
  std::chrono::milliseconds timeout_;
};

}  // namespace xlashape

#endif  // XLASHAPE_CLIENT_H_
