#include "xlashape/map.h"

#include <algorithm>
#include <string>
#include <utility>

#include "mistake.h"

namespace xlashape {
namespace {

using E = v1::Expression;

using Operation = std::int64_t (*)(std::int64_t a, std::int64_t b);

/// The values of the operations, from KIND_ADD on. Divisors are positive. Sums and products wrap around.
const Operation kOperations[] = {
    [](std::int64_t a, std::int64_t b) { return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b)); },
    [](std::int64_t a, std::int64_t b) { return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b)); },
    [](std::int64_t a, std::int64_t b) { return a / b - (a % b < 0); },
    [](std::int64_t a, std::int64_t b) { return a / b + (a % b > 0); },
    [](std::int64_t a, std::int64_t b) { return a % b + (a % b < 0 ? b : 0); },
    [](std::int64_t a, std::int64_t b) { return std::min(a, b); },
    [](std::int64_t a, std::int64_t b) { return std::max(a, b); },
};

/// The values of the expressions at a point, up to the first expression that contradicts the schema.
std::vector<std::int64_t> ValuesAt(const v1::IndexingMap& map, const std::int64_t* point) {
  const std::int64_t first[] = {0, map.dimensions_size(), map.dimensions_size() + map.ranges_size(), Variables(map)};  // variable of each kind
  std::vector<std::int64_t> values;
  for (const E& node : map.expressions()) {
    const auto& operands = node.operands();
    const auto is_later = [&values](std::uint32_t operand) { return operand >= values.size(); };
    std::int64_t value = node.value();
    if (node.kind() >= E::KIND_DIMENSION && node.kind() <= E::KIND_RUNTIME) {
      const std::int64_t* const group = first + (node.kind() - E::KIND_DIMENSION);
      if (value < 0 || value >= group[1] - group[0]) break;
      value = point[group[0] + value];
    } else if (node.kind() != E::KIND_CONSTANT) {
      const bool is_operation = node.kind() >= E::KIND_ADD && node.kind() <= E::KIND_MAXIMUM;
      if (!is_operation || operands.size() < 2 || std::any_of(operands.begin(), operands.end(), is_later)) break;
      if (node.kind() >= E::KIND_FLOOR_DIVIDE && node.kind() <= E::KIND_MODULO) {
        const E& divisor = map.expressions(static_cast<int>(operands[1]));
        if (operands.size() > 2 || divisor.kind() != E::KIND_CONSTANT || divisor.value() <= 0) break;
      }
      value = values[operands[0]];
      for (int k = 1; k < operands.size(); ++k) value = kOperations[node.kind() - E::KIND_ADD](value, values[operands[k]]);
    }
    values.push_back(value);
  }
  return values;
}

bool IsInDomain(const v1::IndexingMap& map, const std::int64_t* point, const std::vector<std::int64_t>& values) {
  const auto is_within = [](std::int64_t value, const v1::Interval& bounds) { return value >= bounds.lower() && value <= bounds.upper(); };
  for (const auto* group : {&map.dimensions(), &map.ranges(), &map.runtime()}) {
    for (const v1::Variable& variable : *group) {
      if (!is_within(*point++, variable.bounds())) return false;
    }
  }
  return map.state() != v1::IndexingMap::STATE_KNOWN_EMPTY && std::all_of(map.constraints().begin(), map.constraints().end(), [&](const auto& one) {
    return is_within(values[one.expression()], one.bounds());
  });
}

}  // namespace

EvaluableMap::EvaluableMap(v1::IndexingMap message) : message_(std::make_shared<const v1::IndexingMap>(std::move(message))) {
  const v1::IndexingMap& map = *message_;
  if (map.state() == v1::IndexingMap::STATE_UNDEFINED || !v1::IndexingMap::State_IsValid(map.state())) {
    Refuse("INVALID_MAP", "state", "a map in state " + std::to_string(map.state()) + " cannot be evaluated");
  }
  if (!map.fits_int64()) Refuse("SIZE_OVERFLOW", "fits_int64", "values of the map may not fit int64: ask the server with EvaluateMap");
  // Which values there are is the same at all points.
  const std::size_t known = ValuesAt(map, std::vector<std::int64_t>(variables()).data()).size();
  bool is_whole = known == static_cast<std::size_t>(map.expressions_size());
  for (const std::uint32_t used : map.results()) is_whole = is_whole && used < known;
  for (const v1::Constraint& constraint : map.constraints()) is_whole = is_whole && constraint.expression() < known;
  if (is_whole) return;
  Refuse("INVALID_MAP", "expressions",
         "expression " + std::to_string(known) + " is missing, or not one of the schema on variables and earlier expressions");
}

std::optional<std::vector<std::int64_t>> EvaluableMap::Evaluate(const std::vector<std::int64_t>& point) const {
  Values values = EvaluateBatch(point, 1);
  if (!values.in_domain[0]) return std::nullopt;
  return std::move(values.results);
}

Values EvaluableMap::EvaluateBatch(const std::vector<std::int64_t>& points, std::size_t count) const {
  const std::size_t width = variables();
  if (width == 0 ? !points.empty() : points.size() % width != 0 || points.size() / width != count) {
    Refuse("INVALID_INDEX", "points",
           "expected " + std::to_string(width) + " numbers for each of " + std::to_string(count) + " points, found " + std::to_string(points.size()));
  }
  Values found;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t* const point = points.data() + i * width;
    const std::vector<std::int64_t> values = ValuesAt(*message_, point);
    found.in_domain.push_back(IsInDomain(*message_, point, values));
    for (const std::uint32_t used : message_->results()) found.results.push_back(found.in_domain.back() ? values[used] : 0);
  }
  return found;
}

}  // namespace xlashape
