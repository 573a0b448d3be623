#include "connection.h"

namespace xlashape {

v1::ShapeInput SerializedShape(std::string proto) {
  v1::ShapeInput input;
  input.set_serialized(std::move(proto));
  return input;
}

namespace {

std::size_t Rank(const Client& client, const AnyShape& shape) { return static_cast<std::size_t>(client.DescribeShape(shape).rank()); }

template <class Request>
Request OfShapes(const std::vector<AnyShape>& shapes) {
  Request request;
  for (const AnyShape& shape : shapes) *request.add_shapes() = shape.input();
  return request;
}

}  // namespace

v1::ShapeDescription Client::DescribeShape(const AnyShape& shape) const { return std::move(DescribeShapes({shape}).front()); }

std::vector<v1::ShapeDescription> Client::DescribeShapes(const std::vector<AnyShape>& shapes) const {
  v1::DescribeShapeResponse answer = Ask(*this, *connection_->shapes, &v1::ShapeService::Stub::DescribeShape, OfShapes<v1::DescribeShapeRequest>(shapes));
  SameNumber(answer.descriptions(), shapes.size());
  return Moved(answer.mutable_descriptions());
}

v1::ShapeSize Client::ByteSize(const AnyShape& shape) const { return std::move(ByteSizes({shape}).front()); }

std::vector<v1::ShapeSize> Client::ByteSizes(const std::vector<AnyShape>& shapes) const {
  v1::ByteSizeResponse answer = Ask(*this, *connection_->shapes, &v1::ShapeService::Stub::ByteSize, OfShapes<v1::ByteSizeRequest>(shapes));
  SameNumber(answer.sizes(), shapes.size());
  return Moved(answer.mutable_sizes());
}

std::int64_t Client::LinearIndex(const AnyShape& shape, const std::vector<std::int64_t>& index) const {
  v1::LinearIndexRequest request;
  *request.mutable_shape() = shape.input();
  request.mutable_indices()->Add(index.begin(), index.end());
  request.set_count(1);
  v1::LinearIndexResponse answer = Ask(*this, *connection_->shapes, &v1::ShapeService::Stub::LinearIndex, request);
  return SameNumber(answer.positions(), 1).Get(0);
}

std::vector<std::int64_t> Client::LinearIndices(const AnyShape& shape, const std::vector<std::int64_t>& indices, v1::LinearOrder order) const {
  if (indices.size() <= kUnaryNumbers) {
    v1::LinearIndexRequest request;
    *request.mutable_shape() = shape.input();
    request.set_order(order);
    request.mutable_indices()->Add(indices.begin(), indices.end());
    v1::LinearIndexResponse answer = Ask(*this, *connection_->shapes, &v1::ShapeService::Stub::LinearIndex, request);
    return {answer.positions().begin(), answer.positions().end()};
  }
  const std::size_t rank = Rank(*this, shape);
  std::vector<std::int64_t> positions;
  positions.reserve(indices.size() / std::max<std::size_t>(rank, 1));
  grpc::ClientContext context;
  Prepare(&context);
  const auto stream = connection_->shapes->LinearIndices(&context);
  InParts(
      &context, stream.get(), indices, rank, kUnaryNumbers,
      [&](const std::int64_t* begin, const std::int64_t* end, bool is_first) {
        v1::LinearIndicesRequest part;
        if (is_first) {
          *part.mutable_shape() = shape.input();
          part.set_order(order);
        }
        part.mutable_indices()->Add(begin, end);
        return part;
      },
      [&](const v1::LinearIndicesResponse& answer) {
        positions.insert(positions.end(), answer.positions().begin(), answer.positions().end());
      });
  return SameNumber(positions, indices.size() / std::max<std::size_t>(rank, 1));
}

std::optional<std::vector<std::int64_t>> Client::MultiIndex(const AnyShape& shape, std::int64_t position) const {
  const Elements found = MultiIndices(shape, {position});
  if (!SameNumber(found.is_element, 1)[0]) return std::nullopt;
  return found.indices;
}

Elements Client::MultiIndices(const AnyShape& shape, const std::vector<std::int64_t>& positions, v1::LinearOrder order) const {
  if (positions.size() <= kUnaryAnswers) {
    v1::MultiIndexRequest request;
    *request.mutable_shape() = shape.input();
    request.set_order(order);
    request.mutable_positions()->Add(positions.begin(), positions.end());
    v1::MultiIndexResponse answer = Ask(*this, *connection_->shapes, &v1::ShapeService::Stub::MultiIndex, request);
    return {{answer.indices().begin(), answer.indices().end()}, {answer.is_element().begin(), answer.is_element().end()}};
  }
  const std::size_t rank = Rank(*this, shape);
  Elements found;
  found.indices.reserve(rank * positions.size());
  found.is_element.reserve(positions.size());
  grpc::ClientContext context;
  Prepare(&context);
  const auto stream = connection_->shapes->MultiIndices(&context);
  InParts(
      &context, stream.get(), positions, 1, kUnaryNumbers / (rank + 1),
      [&](const std::int64_t* begin, const std::int64_t* end, bool is_first) {
        v1::MultiIndicesRequest part;
        if (is_first) {
          *part.mutable_shape() = shape.input();
          part.set_order(order);
        }
        part.mutable_positions()->Add(begin, end);
        return part;
      },
      [&](const v1::MultiIndicesResponse& answer) {
        found.indices.insert(found.indices.end(), answer.indices().begin(), answer.indices().end());
        found.is_element.insert(found.is_element.end(), answer.is_element().begin(), answer.is_element().end());
      });
  SameNumber(found.is_element, positions.size());
  return found;
}

}  // namespace xlashape
