/// @file
/// Indexing maps, evaluated without a server.

#ifndef XLASHAPE_MAP_H_
#define XLASHAPE_MAP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "xlashape/v1/types.pb.h"

namespace xlashape {

/// How many numbers a point of a map has.
inline int Variables(const v1::IndexingMap& map) { return map.dimensions_size() + map.ranges_size() + map.runtime_size(); }

/// The values of a map at some points.
struct Values {
  /// The results of the points one after another, each with one number for every result of the map. They are 0 for a point outside the domain.
  std::vector<std::int64_t> results;
  /// For each point, whether it is in the domain.
  std::vector<bool> in_domain;
};

/// An indexing map that can be evaluated without a server. Copies share the message, and threads may share a map.
///
/// Division rounds towards minus infinity, and a remainder is never negative, as in XLA.
class EvaluableMap {
 public:
  /// Checks a map, such as one of an answer of the server, and prepares it for evaluation with int64. The reason of the Error is SIZE_OVERFLOW if the map is
  /// not marked as one that fits, for which there is Client::EvaluateMap, and INVALID_MAP if it is undefined or its fields contradict the schema.
  explicit EvaluableMap(v1::IndexingMap message);

  /// The message that the map was made of.
  const v1::IndexingMap& message() const { return *message_; }

  /// The number of a point's numbers: one for each dimension, range and runtime variable, in this order.
  std::size_t variables() const { return static_cast<std::size_t>(Variables(*message_)); }

  /// The number of numbers that the map gives for a point.
  std::size_t results() const { return static_cast<std::size_t>(message_->results_size()); }

  /// The results at a point; nothing if the point is outside the domain. The reason of the Error is INVALID_INDEX for a point of too few or too many
  /// numbers.
  std::optional<std::vector<std::int64_t>> Evaluate(const std::vector<std::int64_t>& point) const;

  /// The results at `count` points, which stand one after another. Errors are those of Evaluate.
  Values EvaluateBatch(const std::vector<std::int64_t>& points, std::size_t count) const;

 private:
  std::shared_ptr<const v1::IndexingMap> message_;
};

}  // namespace xlashape

#endif  // XLASHAPE_MAP_H_
