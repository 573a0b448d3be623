#include "xlashape/map.h"

#include <algorithm>
#include <string>
#include <utility>

#include "mistake.h"

namespace xlashape {
namespace {

using E = v1::Expression;

/// The value of an operation. Divisors are positive. Sums and products wrap around.
std::int64_t Combined(E::Kind kind, std::int64_t a, std::int64_t b) {
  std::int64_t value = 0;
  if (kind == E::KIND_ADD) {
    static_cast<void>(__builtin_add_overflow(a, b, &value));
  } else if (kind == E::KIND_MULTIPLY) {
    static_cast<void>(__builtin_mul_overflow(a, b, &value));
  } else if (kind == E::KIND_FLOOR_DIVIDE) {
    value = a / b - (a % b < 0);
  } else if (kind == E::KIND_CEIL_DIVIDE) {
    value = a / b + (a % b > 0);
  } else if (kind == E::KIND_MODULO) {
    value = a % b + (a % b < 0 ? b : 0);
  } else {
    value = kind == E::KIND_MINIMUM ? std::min(a, b) : std::max(a, b);
  }
  return value;
}

bool IsBefore(std::uint32_t expression, int end) { return expression < static_cast<std::uint32_t>(end); }

/// Whether an expression is one of the schema on variables and earlier expressions.
bool IsValid(const v1::IndexingMap& map, int i) {
  const E& node = map.expressions(i);
  const auto& operands = node.operands();
  const auto is_below = [&node](int count) { return node.value() >= 0 && node.value() < count; };
  if (node.kind() == E::KIND_CONSTANT) return true;
  if (node.kind() == E::KIND_DIMENSION) return is_below(map.dimensions_size());
  if (node.kind() == E::KIND_RANGE) return is_below(map.ranges_size());
  if (node.kind() == E::KIND_RUNTIME) return is_below(map.runtime_size());
  if (node.kind() < E::KIND_ADD || node.kind() > E::KIND_MAXIMUM || operands.size() < 2) return false;
  if (!std::all_of(operands.begin(), operands.end(), [i](std::uint32_t operand) { return IsBefore(operand, i); })) return false;
  if (node.kind() < E::KIND_FLOOR_DIVIDE || node.kind() > E::KIND_MODULO) return true;
  const E& divisor = map.expressions(static_cast<int>(operands[1]));
  return operands.size() == 2 && divisor.kind() == E::KIND_CONSTANT && divisor.value() > 0;
}

bool IsOutside(std::int64_t value, const v1::Interval& bounds) { return value < bounds.lower() || value > bounds.upper(); }

/// Computes the values of all expressions at a point, whose variables have these bounds. Whether it is in the domain.
bool Run(const v1::IndexingMap& map, const std::vector<v1::Interval>& bounds, const std::int64_t* point, std::vector<std::int64_t>* values) {
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    if (IsOutside(point[i], bounds[i])) return false;
  }
  const std::int64_t first[] = {0, map.dimensions_size(), map.dimensions_size() + map.ranges_size()};  // variable of each kind
  values->clear();
  for (const E& node : map.expressions()) {
    std::int64_t value = node.value();
    if (node.kind() >= E::KIND_ADD) {
      value = (*values)[node.operands(0)];
      for (int k = 1; k < node.operands_size(); ++k) value = Combined(node.kind(), value, (*values)[node.operands(k)]);
    } else if (node.kind() != E::KIND_CONSTANT) {
      value = point[first[node.kind() - E::KIND_DIMENSION] + value];
    }
    values->push_back(value);
  }
  const auto is_kept = [values](const v1::Constraint& constraint) { return !IsOutside((*values)[constraint.expression()], constraint.bounds()); };
  return map.state() != v1::IndexingMap::STATE_KNOWN_EMPTY && std::all_of(map.constraints().begin(), map.constraints().end(), is_kept);
}

}  // namespace

EvaluableMap::EvaluableMap(v1::IndexingMap message) : message_(std::make_shared<const v1::IndexingMap>(std::move(message))) {
  const v1::IndexingMap& map = *message_;
  if (map.state() == v1::IndexingMap::STATE_UNDEFINED || !v1::IndexingMap::State_IsValid(map.state())) {
    Refuse("INVALID_MAP", "state", "a map in state " + std::to_string(map.state()) + " cannot be evaluated");
  }
  if (!map.fits_int64()) Refuse("SIZE_OVERFLOW", "fits_int64", "values of the map may not fit int64: ask the server with EvaluateMap");
  for (const auto* group : {&map.dimensions(), &map.ranges(), &map.runtime()}) {
    for (const v1::Variable& variable : *group) bounds_.push_back(variable.bounds());
  }
  for (int i = 0; i < map.expressions_size(); ++i) {
    if (!IsValid(map, i)) {
      Refuse("INVALID_MAP", "expressions[" + std::to_string(i) + "]", "is not an expression of the schema on variables and earlier expressions");
    }
  }
  std::vector<std::uint32_t> used(map.results().begin(), map.results().end());
  for (const v1::Constraint& constraint : map.constraints()) used.push_back(constraint.expression());
  for (const std::uint32_t expression : used) {
    if (!IsBefore(expression, map.expressions_size())) Refuse("INVALID_MAP", "", "there is no expression " + std::to_string(expression));
  }
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
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_in = Run(*message_, bounds_, points.data() + i * width, &values);
    for (const std::uint32_t result : message_->results()) found.results.push_back(is_in ? values[result] : 0);
    found.in_domain.push_back(is_in);
  }
  return found;
}

}  // namespace xlashape
