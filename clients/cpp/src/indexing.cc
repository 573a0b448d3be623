#include "connection.h"

namespace xlashape {
namespace {

/// How many numbers a point of the map has.
std::size_t Variables(const v1::MapInput& input) {
  if (!input.has_map()) return Map::Parse(input.text()).variables();
  return static_cast<std::size_t>(input.map().dimensions_size() + input.map().ranges_size() + input.map().runtime_size());
}

}  // namespace

Sequence<v1::IndexingMapsResponse> Client::IndexingMaps(const v1::IndexingMapsRequest& request) const {
  return Stream<v1::IndexingMapsResponse>(
      *this, [&](grpc::ClientContext* context) { return connection_->indexing->IndexingMaps(context, request); });
}

v1::InstructionMapsResponse Client::InstructionMaps(const v1::InstructionMapsRequest& request) const {
  return Ask(*this, *connection_->indexing, &v1::IndexingService::Stub::InstructionMaps, request);
}

Sequence<v1::OperandReadsResponse> Client::OperandReads(const v1::OperandReadsRequest& request) const {
  return Stream<v1::OperandReadsResponse>(
      *this, [&](grpc::ClientContext* context) { return connection_->indexing->OperandReads(context, request); });
}

v1::OperandTilesResponse Client::OperandTiles(const v1::OperandTilesRequest& request) const {
  return Ask(*this, *connection_->indexing, &v1::IndexingService::Stub::OperandTiles, request);
}

v1::MapOutput Client::SimplifyMap(const AnyMap& map) const {
  v1::SimplifyMapRequest request;
  *request.add_maps() = map.input();
  v1::SimplifyMapResponse answer = Ask(*this, *connection_->indexing, &v1::IndexingService::Stub::SimplifyMap, request);
  SameNumber(answer.maps(), 1);
  return std::move(*answer.mutable_maps(0)->mutable_map());
}

v1::MapOutput Client::ComposeMaps(const std::vector<AnyMap>& chain) const {
  v1::ComposeMapsRequest request;
  v1::MapChain* maps = request.add_chains();
  for (const AnyMap& map : chain) *maps->add_maps() = map.input();
  v1::ComposeMapsResponse answer = Ask(*this, *connection_->indexing, &v1::IndexingService::Stub::ComposeMaps, request);
  SameNumber(answer.maps(), 1);
  return std::move(*answer.mutable_maps(0));
}

Values Client::EvaluateMap(const AnyMap& map, const std::vector<std::int64_t>& points) const {
  if (points.size() <= kUnaryAnswers) {
    v1::EvaluateMapRequest request;
    *request.mutable_map() = map.input();
    request.mutable_points()->Add(points.begin(), points.end());
    v1::EvaluateMapResponse answer = Ask(*this, *connection_->indexing, &v1::IndexingService::Stub::EvaluateMap, request);
    return {{answer.results().begin(), answer.results().end()}, {answer.in_domain().begin(), answer.in_domain().end()}};
  }
  const std::size_t width = std::max<std::size_t>(Variables(map.input()), 1);
  Values values;
  values.in_domain.reserve(points.size() / width);
  grpc::ClientContext context;
  Prepare(&context);
  const auto stream = connection_->indexing->EvaluateMapBatch(&context);
  InParts(
      &context, stream.get(), points, width, kUnaryAnswers * width,
      [&](const std::int64_t* begin, const std::int64_t* end, bool is_first) {
        v1::EvaluateMapBatchRequest part;
        if (is_first) *part.mutable_map() = map.input();
        part.mutable_points()->Add(begin, end);
        return part;
      },
      [&](const v1::EvaluateMapBatchResponse& answer) {
        values.results.insert(values.results.end(), answer.results().begin(), answer.results().end());
        values.in_domain.insert(values.in_domain.end(), answer.in_domain().begin(), answer.in_domain().end());
      });
  SameNumber(values.in_domain, points.size() / width);
  return values;
}

}  // namespace xlashape
