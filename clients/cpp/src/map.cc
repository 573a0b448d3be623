#include "xlashape/map.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "mistake.h"

namespace xlashape {
namespace {

__extension__ typedef __int128 Int128;

/// *out = a operation b; false if that does not fit. Divisors are positive.
template <class Integer>
bool Operate(v1::Expression::Kind kind, Integer a, Integer b, Integer* out) {
  switch (kind) {
    case v1::Expression::KIND_ADD:
      return !__builtin_add_overflow(a, b, out);
    case v1::Expression::KIND_MULTIPLY:
      return !__builtin_mul_overflow(a, b, out);
    case v1::Expression::KIND_FLOOR_DIVIDE:
      *out = a / b - (a % b < 0);
      return true;
    case v1::Expression::KIND_CEIL_DIVIDE:
      *out = a / b + (a % b > 0);
      return true;
    case v1::Expression::KIND_MODULO:
      *out = a % b < 0 ? a % b + b : a % b;
      return true;
    case v1::Expression::KIND_MINIMUM:
      *out = std::min(a, b);
      return true;
    default:
      *out = std::max(a, b);
      return true;
  }
}

/// The decimal digits of a number.
std::string Text(Int128 value) {
  std::string digits;
  const bool is_negative = value < 0;
  do {
    const int digit = static_cast<int>(value % 10);
    digits += static_cast<char>('0' + (digit < 0 ? -digit : digit));
    value /= 10;
  } while (value != 0);
  if (is_negative) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

struct Bounds {
  std::size_t register_;
  std::int64_t lower;
  std::int64_t upper;
};

/// registers[target] = registers[left] kind registers[right].
struct Step {
  v1::Expression::Kind kind;
  std::size_t target;
  std::size_t left;
  std::size_t right;
};

/// A value that an expression takes. One that does not fit, or is computed from such a one, does not fit.
template <class Integer>
struct Value {
  Integer number;
  bool fits;
};

enum class Outcome { kOutside, kInside, kTooLarge };

[[noreturn]] void Invalid(const std::string& field, int i, const char* what) { Refuse("INVALID_MAP", field + "[" + std::to_string(i) + "]", what); }

}  // namespace

/// A map that is checked, as steps on registers. The first registers are the numbers of a point: dimensions, ranges, runtime variables.
class EvaluableMap::Program {
 public:
  explicit Program(v1::IndexingMap map) : message(std::move(map)) {
    const v1::IndexingMap::State state = message.state();
    if (state == v1::IndexingMap::STATE_UNDEFINED || !v1::IndexingMap::State_IsValid(state)) {
      Refuse("INVALID_MAP", "state", "a map in state " + std::to_string(state) + " cannot be evaluated");
    }
    for (const auto* group : {&message.dimensions(), &message.ranges(), &message.runtime()}) {
      for (const v1::Variable& variable : *group) bounds_.push_back({bounds_.size(), variable.bounds().lower(), variable.bounds().upper()});
    }
    initial_.resize(bounds_.size());
    std::vector<std::size_t> registers;  // of the expressions
    for (int i = 0; i < message.expressions_size(); ++i) registers.push_back(Compiled(i, registers));
    const auto found = [&registers](const char* field, int i, std::uint32_t expression) {
      if (expression >= registers.size()) Invalid(field, i, "there is no such expression");
      return registers[expression];
    };
    for (int i = 0; i < message.results_size(); ++i) results_.push_back(found("results", i, message.results(i)));
    for (int i = 0; i < message.constraints_size(); ++i) {
      const v1::Constraint& one = message.constraints(i);
      constraints_.push_back({found("constraints", i, one.expression()), one.bounds().lower(), one.bounds().upper()});
    }
  }

  std::size_t variables() const { return bounds_.size(); }

  std::size_t results() const { return results_.size(); }

  Values Evaluate(const std::int64_t* points, std::size_t count) const {
    Values values;
    values.results.resize(count * results());
    values.in_domain.resize(count);
    std::vector<Value<std::int64_t>> registers(initial_.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t* point = points + i * variables();
      std::int64_t* result = values.results.data() + i * results();
      Outcome outcome = Run(point, &registers);
      for (std::size_t k = 0; k < results() && outcome == Outcome::kInside; ++k) result[k] = registers[results_[k]].number;
      if (outcome == Outcome::kTooLarge) outcome = Exactly(point, i, result);
      values.in_domain[i] = outcome == Outcome::kInside;
    }
    return values;
  }

  const v1::IndexingMap message;

 private:
  /// The register of expression `i`, whose operands are in `registers`. Adds the steps that compute it.
  std::size_t Compiled(int i, const std::vector<std::size_t>& registers) {
    using E = v1::Expression;
    const E& expression = message.expressions(i);
    const auto invalid = [i](const char* what) { Invalid("expressions", i, what); };
    if (expression.kind() == E::KIND_CONSTANT) return Added(expression.value());
    if (expression.kind() >= E::KIND_DIMENSION && expression.kind() <= E::KIND_RUNTIME) {
      const std::int64_t ends[] = {0, message.dimensions_size(), message.dimensions_size() + message.ranges_size(),
                                   static_cast<std::int64_t>(bounds_.size())};
      const int group = expression.kind() - E::KIND_DIMENSION;
      if (expression.value() < 0 || expression.value() >= ends[group + 1] - ends[group]) invalid("is a variable that the map does not have");
      return static_cast<std::size_t>(ends[group] + expression.value());
    }
    if (expression.kind() < E::KIND_ADD || expression.kind() > E::KIND_MAXIMUM) invalid("is of an unknown kind");
    const bool divides = expression.kind() >= E::KIND_FLOOR_DIVIDE && expression.kind() <= E::KIND_MODULO;
    if (expression.operands_size() < 2 || (divides && expression.operands_size() > 2)) invalid("has too few operands, or too many");
    for (const std::uint32_t operand : expression.operands()) {
      if (operand >= registers.size()) invalid("uses itself or a later expression");
    }
    if (divides) {
      const E& divisor = message.expressions(static_cast<int>(expression.operands(1)));
      if (divisor.kind() != E::KIND_CONSTANT || divisor.value() <= 0) invalid("divides by what is not a positive constant");
    }
    std::size_t left = registers[expression.operands(0)];
    for (int k = 1; k < expression.operands_size(); ++k) {
      steps_.push_back({expression.kind(), Added(0), left, registers[expression.operands(k)]});
      left = steps_.back().target;
    }
    return left;
  }

  std::size_t Added(std::int64_t initial) {
    initial_.push_back(initial);
    return initial_.size() - 1;
  }

  /// Computes all registers at a point.
  template <class Integer>
  Outcome Run(const std::int64_t* point, std::vector<Value<Integer>>* registers) const {
    if (message.state() == v1::IndexingMap::STATE_KNOWN_EMPTY) return Outcome::kOutside;
    Value<Integer>* values = registers->data();
    for (std::size_t i = 0; i < initial_.size(); ++i) values[i] = {i < variables() ? point[i] : initial_[i], true};
    for (const Bounds& bounds : bounds_) {
      if (point[bounds.register_] < bounds.lower || point[bounds.register_] > bounds.upper) return Outcome::kOutside;
    }
    for (const Step& step : steps_) {
      const Value<Integer>&left = values[step.left], &right = values[step.right];
      Value<Integer>& target = values[step.target];
      target.fits = Operate(step.kind, left.number, right.number, &target.number) && left.fits && right.fits;
    }
    bool fits = true;
    for (const Bounds& bounds : constraints_) {
      const Value<Integer>& value = values[bounds.register_];
      if (value.fits && (value.number < bounds.lower || value.number > bounds.upper)) return Outcome::kOutside;
      fits = fits && value.fits;
    }
    for (const std::size_t result : results_) fits = fits && values[result].fits;
    return fits ? Outcome::kInside : Outcome::kTooLarge;
  }

  /// Computes the results at a point, the one of number `i`, with 128 bits.
  Outcome Exactly(const std::int64_t* point, std::size_t i, std::int64_t* result) const {
    std::vector<Value<Int128>> registers(initial_.size());
    const Outcome outcome = Run(point, &registers);
    const auto refuse = [&](const std::string& what) {
      Refuse("SIZE_OVERFLOW", variables() == 0 ? "map" : "points[" + std::to_string(i * variables()) + "]", what);
    };
    if (outcome == Outcome::kTooLarge) refuse("an expression takes a value of more than 128 bits");
    for (std::size_t k = 0; k < results() && outcome == Outcome::kInside; ++k) {
      const Int128 value = registers[results_[k]].number;
      result[k] = static_cast<std::int64_t>(value);
      if (result[k] != value) refuse("result " + std::to_string(k) + " does not fit int64: " + Text(value));
    }
    return outcome;
  }

  std::vector<Bounds> bounds_;         // of the variables
  std::vector<std::int64_t> initial_;  // what constants hold, and 0 for all other registers
  std::vector<Step> steps_;
  std::vector<Bounds> constraints_;
  std::vector<std::size_t> results_;
};

EvaluableMap::EvaluableMap(v1::IndexingMap message) : program_(std::make_shared<const Program>(std::move(message))) {}

const v1::IndexingMap& EvaluableMap::message() const { return program_->message; }

std::size_t EvaluableMap::variables() const { return program_->variables(); }

std::size_t EvaluableMap::results() const { return program_->results(); }

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
  if (count > std::numeric_limits<std::ptrdiff_t>::max() / sizeof(std::int64_t) / std::max<std::size_t>(results(), 1)) {
    Refuse("INVALID_INDEX", "points", "the results of " + std::to_string(count) + " points do not fit memory");
  }
  return program_->Evaluate(points.data(), count);
}

Values EvaluableMap::EvaluateBatch(const std::vector<std::int64_t>& points) const {
  if (variables() == 0) Refuse("INVALID_INDEX", "points", "the points of a map without variables have no numbers: say how many points");
  return EvaluateBatch(points, points.size() / variables());
}

}  // namespace xlashape
