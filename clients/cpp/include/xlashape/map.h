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

/// The values of a map at some points.
struct Values {
  /// The results of the points one after another, each with one number for every result of the map. They are 0 for a point outside the domain.
  std::vector<std::int64_t> results;
  /// For each point, whether it is in the domain.
  std::vector<bool> in_domain;
};

/// An indexing map that can be evaluated without a server. Copies share what they hold, and threads may share a map.
///
/// Division rounds towards minus infinity, and a remainder is never negative, as in XLA. Values between may have up to 128 bits; where they have more,
/// and where a result does not fit 64, an Error says so.
class EvaluableMap {
 public:
  /// Checks a map, such as one of an answer of the server, and prepares it for evaluation. The reason of the Error is INVALID_MAP if the map is
  /// undefined, or if an expression uses itself or a later one, a variable that does not exist, a divisor that is not a positive constant, or too few
  /// operands.
  explicit EvaluableMap(v1::IndexingMap message);

  /// The message that the map was made of.
  const v1::IndexingMap& message() const;

  /// The number of a point's numbers: one for each dimension, range and runtime variable, in this order.
  std::size_t variables() const;

  /// The number of numbers that the map gives for a point.
  std::size_t results() const;

  /// The results at a point; nothing if the point is outside the domain. The reason of the Error is INVALID_INDEX for a point of too few or too many
  /// numbers, SIZE_OVERFLOW for a result that does not fit int64, and for a value on the way to the results or to a constraint that does not fit 128 bits.
  std::optional<std::vector<std::int64_t>> Evaluate(const std::vector<std::int64_t>& point) const;

  /// The results at `count` points, which stand one after another. Errors are those of Evaluate.
  Values EvaluateBatch(const std::vector<std::int64_t>& points, std::size_t count) const;

  /// The same for all points, whose number follows from the numbers. Not for a map without variables, whose points have no numbers.
  Values EvaluateBatch(const std::vector<std::int64_t>& points) const;

 private:
  class Program;
  std::shared_ptr<const Program> program_;
};

}  // namespace xlashape

#endif  // XLASHAPE_MAP_H_
