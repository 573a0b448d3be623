#include "xlashape/map.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "integers.h"
#include "mistake.h"

namespace xlashape {
namespace {

/// Points that are evaluated together: the values of an expression at all of them stand side by side.
constexpr std::size_t kMaxLanes = 256;
/// The numbers that all expressions of a map may take at the points that are evaluated together. 1 MiB.
constexpr std::size_t kMaxNumbers = std::size_t{1} << 17;

struct Node {
  v1::Expression::Kind kind;
  std::int64_t value;                   // of a constant its value, of a variable its position in a point
  std::vector<std::uint32_t> operands;  // positions of earlier nodes
};

struct Limit {
  std::uint32_t node;
  std::int64_t lower;
  std::int64_t upper;
};

bool Divides(v1::Expression::Kind kind) {
  return kind == v1::Expression::KIND_FLOOR_DIVIDE || kind == v1::Expression::KIND_CEIL_DIVIDE || kind == v1::Expression::KIND_MODULO;
}

[[noreturn]] void Invalid(const char* field, const std::string& message) { Refuse("INVALID_MAP", field, message); }

/// out = operation(a, b) in each lane; whether no lane overflows.
template <v1::Expression::Kind kind>
bool Combine(const std::int64_t* a, const std::int64_t* b, std::int64_t* out, std::size_t lanes) {
  bool fits = true;
  for (std::size_t lane = 0; lane < lanes; ++lane) fits &= Operate<kind>(a[lane], b[lane], &out[lane]);
  return fits;
}

bool Combine(v1::Expression::Kind kind, const std::int64_t* a, const std::int64_t* b, std::int64_t* out, std::size_t lanes) {
  return WithKind(kind, [&](auto known) { return Combine<known.value>(a, b, out, lanes); });
}

}  // namespace

/// A map that is checked, as lists of numbers.
class Map::Program {
 public:
  explicit Program(v1::IndexingMap map) : message(std::move(map)) {
    switch (message.state()) {
      case v1::IndexingMap::STATE_UNSPECIFIED:
      case v1::IndexingMap::STATE_DEFINED:
        break;
      case v1::IndexingMap::STATE_KNOWN_EMPTY:
        is_empty_ = true;
        break;
      case v1::IndexingMap::STATE_UNDEFINED:
        Invalid("state", "an undefined map cannot be evaluated");
      default:
        Invalid("state", "unknown state " + std::to_string(message.state()));
    }
    for (const auto* group : {&message.dimensions(), &message.ranges(), &message.runtime()}) {
      for (const v1::Variable& variable : *group) bounds_.push_back({0, variable.bounds().lower(), variable.bounds().upper()});
    }
    for (const v1::Expression& expression : message.expressions()) AddNode(expression);
    const auto count = static_cast<std::uint32_t>(nodes_.size());
    for (int i = 0; i < message.results_size(); ++i) {
      if (message.results(i) >= count) {
        Invalid("results", "result " + std::to_string(i) + " is expression " + std::to_string(message.results(i)) + " of " + std::to_string(count));
      }
    }
    for (const v1::Constraint& constraint : message.constraints()) {
      if (constraint.expression() >= count) {
        Invalid("constraints", "constraint " + std::to_string(constraints_.size()) + " is on expression " +
                                   std::to_string(constraint.expression()) + " of " + std::to_string(count));
      }
      constraints_.push_back({constraint.expression(), constraint.bounds().lower(), constraint.bounds().upper()});
    }
  }

  std::size_t variables() const { return bounds_.size(); }

  std::size_t results() const { return static_cast<std::size_t>(message.results_size()); }

  Values Evaluate(const std::int64_t* points, std::size_t count) const {
    Values values;
    values.results.resize(count * results());
    values.in_domain.resize(count);
    const std::size_t most = std::clamp<std::size_t>(kMaxNumbers / std::max<std::size_t>(nodes_.size(), 1), 1, kMaxLanes);
    const std::size_t lanes = std::min(most, std::max<std::size_t>(count, 1));
    std::vector<std::int64_t> columns(nodes_.size() * lanes);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].kind == v1::Expression::KIND_CONSTANT) std::fill_n(columns.data() + i * lanes, lanes, nodes_[i].value);
    }
    std::vector<Int128> exact;
    for (std::size_t first = 0; first < count; first += lanes) {
      const std::size_t used = std::min(lanes, count - first);
      if (EvaluateLanes(points + first * variables(), used, lanes, columns.data())) {
        Take(points, first, used, lanes, columns.data(), &values);
        continue;
      }
      exact.resize(nodes_.size());
      for (std::size_t i = first; i < first + used; ++i) {
        values.in_domain[i] = EvaluateExactly(points + i * variables(), i, exact.data(), values.results.data() + i * results());
      }
    }
    return values;
  }

  const v1::IndexingMap message;

 private:
  void AddNode(const v1::Expression& expression) {
    Node node{expression.kind(), expression.value(), {expression.operands().begin(), expression.operands().end()}};
    const std::string name = "expression " + std::to_string(nodes_.size());
    std::int64_t first = 0;
    std::int64_t count = 0;
    switch (node.kind) {
      case v1::Expression::KIND_CONSTANT:
        nodes_.push_back(std::move(node));
        return;
      case v1::Expression::KIND_DIMENSION:
        count = message.dimensions_size();
        break;
      case v1::Expression::KIND_RANGE:
        first = message.dimensions_size();
        count = message.ranges_size();
        break;
      case v1::Expression::KIND_RUNTIME:
        first = std::int64_t{message.dimensions_size()} + message.ranges_size();
        count = message.runtime_size();
        break;
      default:
        if (!IsOperation(node.kind)) Invalid("expressions", name + " is of an unknown kind");
        CheckOperands(node, name);
        nodes_.push_back(std::move(node));
        return;
    }
    if (node.value < 0 || node.value >= count) Invalid("expressions", name + " is a variable that the map does not have");
    node.value += first;
    nodes_.push_back(std::move(node));
  }

  void CheckOperands(const Node& node, const std::string& name) const {
    for (const std::uint32_t operand : node.operands) {
      if (operand >= nodes_.size()) Invalid("expressions", name + " uses itself or a later expression");
    }
    if (!Divides(node.kind)) {
      if (node.operands.size() < 2) Invalid("expressions", name + " has fewer than two operands");
      return;
    }
    if (node.operands.size() != 2) Invalid("expressions", name + " divides, and has not exactly two operands");
    const Node& divisor = nodes_[node.operands[1]];
    if (divisor.kind != v1::Expression::KIND_CONSTANT || divisor.value <= 0) {
      Invalid("expressions", name + " divides by what is not a positive constant");
    }
  }

  /// Computes all expressions at `used` points with int64. False if a value does not fit.
  bool EvaluateLanes(const std::int64_t* points, std::size_t used, std::size_t lanes, std::int64_t* columns) const {
    if (is_empty_) return true;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      std::int64_t* out = columns + i * lanes;
      if (node.kind == v1::Expression::KIND_CONSTANT) continue;
      if (!IsOperation(node.kind)) {
        const std::int64_t* from = points + node.value;
        for (std::size_t lane = 0; lane < used; ++lane) out[lane] = from[lane * variables()];
        continue;
      }
      const std::int64_t* value = columns + node.operands[0] * lanes;
      for (std::size_t k = 1; k < node.operands.size(); ++k) {
        if (!Combine(node.kind, value, columns + node.operands[k] * lanes, out, used)) return false;
        value = out;
      }
    }
    return true;
  }

  /// Puts the results of EvaluateLanes into `values`.
  void Take(const std::int64_t* points, std::size_t first, std::size_t used, std::size_t lanes, const std::int64_t* columns, Values* values) const {
    for (std::size_t lane = 0; lane < used; ++lane) {
      const std::size_t i = first + lane;
      bool is_in = InBounds(points + i * variables());
      for (const Limit& limit : constraints_) {
        const std::int64_t value = columns[limit.node * lanes + lane];
        is_in = is_in && value >= limit.lower && value <= limit.upper;
      }
      values->in_domain[i] = is_in;
      if (!is_in) continue;
      std::int64_t* result = values->results.data() + i * results();
      for (const std::uint32_t node : message.results()) *result++ = columns[node * lanes + lane];
    }
  }

  bool InBounds(const std::int64_t* point) const {
    if (is_empty_) return false;
    for (const Limit& bounds : bounds_) {
      if (*point < bounds.lower || *point > bounds.upper) return false;
      ++point;
    }
    return true;
  }

  /// Computes the results at one point, the one of number `i`, with 128 bits. Whether it is in the domain.
  bool EvaluateExactly(const std::int64_t* point, std::size_t i, Int128* values, std::int64_t* result) const {
    if (!InBounds(point)) return false;
    const auto overflow = [i](const std::string& what) { Refuse("SIZE_OVERFLOW", "points", "point " + std::to_string(i) + ": " + what); };
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      const Node& node = nodes_[n];
      if (!IsOperation(node.kind)) {
        values[n] = node.kind == v1::Expression::KIND_CONSTANT ? node.value : point[node.value];
        continue;
      }
      Int128 value = values[node.operands[0]];
      for (std::size_t k = 1; k < node.operands.size(); ++k) {
        const Int128 other = values[node.operands[k]];
        if (!WithKind(node.kind, [&](auto known) { return Operate<known.value>(value, other, &value); })) {
          overflow("expression " + std::to_string(n) + " does not fit 128 bits");
        }
      }
      values[n] = value;
    }
    for (const Limit& limit : constraints_) {
      if (values[limit.node] < limit.lower || values[limit.node] > limit.upper) return false;
    }
    for (int k = 0; k < message.results_size(); ++k) {
      const Int128 value = values[message.results(k)];
      if (value < std::numeric_limits<std::int64_t>::min() || value > std::numeric_limits<std::int64_t>::max()) {
        overflow("result " + std::to_string(k) + " does not fit 64 bits: " + Text(value));
      }
    }
    for (const std::uint32_t node : message.results()) *result++ = static_cast<std::int64_t>(values[node]);
    return true;
  }

  std::vector<Limit> bounds_;  // of each variable: dimensions, ranges, runtime
  std::vector<Node> nodes_;
  std::vector<Limit> constraints_;
  bool is_empty_ = false;
};

Map::Map(v1::IndexingMap message) : program_(std::make_shared<const Program>(std::move(message))) {}

const v1::IndexingMap& Map::message() const { return program_->message; }

std::size_t Map::variables() const { return program_->variables(); }

std::size_t Map::results() const { return program_->results(); }

std::optional<std::vector<std::int64_t>> Map::Evaluate(const std::vector<std::int64_t>& point) const {
  Values values = EvaluateBatch(point, 1);
  if (!values.in_domain[0]) return std::nullopt;
  return std::move(values.results);
}

Values Map::EvaluateBatch(const std::vector<std::int64_t>& points, std::size_t count) const {
  const std::size_t width = variables();
  if (width == 0 ? !points.empty() : points.size() % width != 0 || points.size() / width != count) {
    Refuse("INVALID_INDEX", "points",
           "expected " + std::to_string(width) + " numbers for each of " + std::to_string(count) + " points, found " + std::to_string(points.size()));
  }
  if (count > std::numeric_limits<std::ptrdiff_t>::max() / sizeof(std::int64_t) / std::max<std::size_t>(results(), 1)) {
    Refuse("INVALID_INDEX", "points", "the results of " + std::to_string(count) + " points do not fit memory");
  }
  return program_->Evaluate(points.data(), count);
}

Values Map::EvaluateBatch(const std::vector<std::int64_t>& points) const {
  if (variables() == 0) Refuse("INVALID_INDEX", "points", "the points of a map without variables have no numbers: say how many points");
  return EvaluateBatch(points, points.size() / variables());
}

}  // namespace xlashape
