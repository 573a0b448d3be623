// The text of maps, read by recursive descent.
//
//   map     := 'KNOWN EMPTY' | 'UNDEFINED' | '(' names ')' ['[' names ']'] ['{' names '}'] '->' '(' [expr {',' expr}] ')' [','] ['domain' ':' items]
//   items   := [item {(',' | newline) item}] [',']
//   item    := expr 'in' '[' integer ',' integer ']' | 'is_simplified' ':' word
//   expr    := product {('+' | '-') product}
//   product := unary {('*' | '/' | 'floordiv' | 'ceildiv' | 'mod') unary}
//   unary   := '-' unary | integer | name | '(' expr ')' | ('min' | 'max') '(' expr ',' expr ')'

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "integers.h"
#include "xlashape/error.h"
#include "xlashape/map.h"

namespace xlashape {
namespace {

using E = v1::Expression;
using Variables = google::protobuf::RepeatedPtrField<v1::Variable>;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool StartsNumber(std::string_view token) { return !token.empty() && IsDigit(token[0]); }

/// Bounds parentheses within each other, and with them the stack.
constexpr int kMaxLevels = 1000;

/// What an operator that binds like a product computes; nothing for other tokens.
std::optional<E::Kind> FactorKind(std::string_view token) {
  if (token == "*") return E::KIND_MULTIPLY;
  if (token == "/" || token == "floordiv") return E::KIND_FLOOR_DIVIDE;
  if (token == "ceildiv") return E::KIND_CEIL_DIVIDE;
  if (token == "mod") return E::KIND_MODULO;
  return std::nullopt;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) { Next(); }

  v1::IndexingMap Read() {
    Declare("(", ")", E::KIND_DIMENSION, "d", map_.mutable_dimensions());
    if (token_ == "[") Declare("[", "]", E::KIND_RANGE, "s", map_.mutable_ranges());
    if (token_ == "{") Declare("{", "}", E::KIND_RUNTIME, "rt", map_.mutable_runtime());
    Expect("->");
    List("(", ")", [this] { map_.add_results(Sum()); });
    Take(",");
    if (Take("domain")) {
      Expect(":");
      while (!token_.empty()) {
        Item();
        if (!Take(",") && !is_after_newline_) break;
      }
    }
    if (!token_.empty()) Fail("the end of the text");
    for (const auto& [expression, variable] : variables_) {
      if (!variable->has_bounds()) Fail("a domain with an interval for every variable");
    }
    return std::move(map_);
  }

 private:
  void Next() {
    start_ += token_.size();
    is_after_newline_ = false;
    while (start_ < text_.size() && IsSpace(text_[start_])) is_after_newline_ |= text_[start_++] == '\n';
    std::size_t end = start_;
    if (end < text_.size()) {
      const char first = text_[end++];
      if (IsDigit(first)) {
        while (end < text_.size() && IsDigit(text_[end])) ++end;
      } else if (IsLetter(first)) {
        while (end < text_.size() && (IsLetter(text_[end]) || IsDigit(text_[end]))) ++end;
      } else if (first == '-' && end < text_.size() && text_[end] == '>') {
        ++end;
      } else {
        while (end < text_.size() && IsContinuation(text_[end])) ++end;
      }
    }
    token_ = text_.substr(start_, end - start_);
  }

  /// Whether a byte is in the middle of a character of UTF-8.
  static bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

  [[noreturn]] void Fail(const std::string& expected) const {
    Error::Parts parts;
    parts.reason = "PARSE";
    parts.line = 1;
    parts.column = 1;
    for (const char c : text_.substr(0, start_)) {
      if (c == '\n') {
        ++parts.line;
        parts.column = 1;
      } else if (!IsContinuation(c)) {
        ++parts.column;
      }
    }
    const bool is_long = token_.size() > 40;
    parts.message = "expected " + expected + ", found ";
    parts.message += token_.empty() ? "the end of the text" : "'" + std::string(token_.substr(0, 40)) + (is_long ? "…'" : "'");
    throw Error(std::move(parts));
  }

  /// Passes a token that is as given.
  bool Take(std::string_view token) {
    if (token_ != token) return false;
    Next();
    return true;
  }

  void Expect(std::string_view token) {
    if (!Take(token)) Fail("'" + std::string(token) + "'");
  }

  std::uint32_t Add(E::Kind kind, std::int64_t value) {
    E* node = map_.add_expressions();
    node->set_kind(kind);
    node->set_value(value);
    return static_cast<std::uint32_t>(map_.expressions_size() - 1);
  }

  /// An operation, or its value if both operands are constants and the value fits.
  std::uint32_t Operation(E::Kind kind, std::uint32_t a, std::uint32_t b) {
    const E& left = map_.expressions(static_cast<int>(a));
    const E& right = map_.expressions(static_cast<int>(b));
    std::int64_t value = 0;
    if (left.kind() == E::KIND_CONSTANT && right.kind() == E::KIND_CONSTANT && !(Divides(kind) && right.value() <= 0) &&
        Operate(kind, left.value(), right.value(), &value)) {
      return Add(E::KIND_CONSTANT, value);
    }
    const std::uint32_t node = Add(kind, 0);
    E* made = map_.mutable_expressions(static_cast<int>(node));
    made->add_operands(a);
    made->add_operands(b);
    return node;
  }

  std::uint32_t Negative(std::uint32_t of) { return Operation(E::KIND_MULTIPLY, of, Add(E::KIND_CONSTANT, -1)); }

  /// Reads items between two tokens, with commas between them.
  template <class ReadItem>
  void List(std::string_view open, std::string_view end, ReadItem read) {
    Expect(open);
    while (!Take(end)) {
      read();
      if (token_ != end) Expect(",");
    }
  }

  /// Reads the names of variables, and makes an expression of each.
  void Declare(std::string_view open, std::string_view end, E::Kind kind, const std::string& prefix, Variables* variables) {
    List(open, end, [&] {
      const bool is_reserved = token_ == "min" || token_ == "max" || token_ == "in" || token_ == "domain" || FactorKind(token_);
      if (token_.empty() || !IsLetter(token_[0]) || is_reserved || nodes_.count(token_) != 0) Fail("the name of a new variable");
      const int number = variables->size();
      v1::Variable* variable = variables->Add();
      if (token_ != prefix + std::to_string(number)) variable->set_name(std::string(token_));
      nodes_[token_] = Add(kind, number);
      variables_[nodes_[token_]] = variable;
      Next();
    });
  }

  /// Reads an interval of a variable, or a constraint.
  void Item() {
    if (Take("is_simplified")) {
      Expect(":");
      if (token_ != "true" && token_ != "false") Fail("'true' or 'false'");
      Next();
      return;
    }
    const std::uint32_t expression = Sum();
    Expect("in");
    Expect("[");
    v1::Interval interval;
    interval.set_lower(Integer());
    Expect(",");
    interval.set_upper(Integer());
    Expect("]");
    const auto variable = variables_.find(expression);
    if (variable == variables_.end()) {
      v1::Constraint* constraint = map_.add_constraints();
      constraint->set_expression(expression);
      *constraint->mutable_bounds() = interval;
      return;
    }
    if (const v1::Interval& known = variable->second->bounds(); variable->second->has_bounds()) {
      interval.set_lower(std::max(interval.lower(), known.lower()));
      interval.set_upper(std::min(interval.upper(), known.upper()));
    }
    *variable->second->mutable_bounds() = interval;
  }

  /// Reads digits, and a sign that belongs to them: the least int64 has no positive counterpart.
  std::int64_t Integer() {
    std::string digits = Take("-") ? "-" : "";
    digits += token_;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (!StartsNumber(token_) || error != std::errc() || end != digits.data() + digits.size()) Fail("an integer of 64 bits");
    Next();
    return value;
  }

  std::uint32_t Sum() {
    std::uint32_t sum = Product();
    while (token_ == "+" || token_ == "-") {
      const bool is_negative = token_ == "-";
      Next();
      const std::uint32_t term = Product();
      sum = Operation(E::KIND_ADD, sum, is_negative ? Negative(term) : term);
    }
    return sum;
  }

  std::uint32_t Product() {
    std::uint32_t product = Operand();
    while (const std::optional<E::Kind> kind = FactorKind(token_)) {
      Next();
      product = Operation(*kind, product, Operand());
    }
    return product;
  }

  std::uint32_t Operand() {
    if (++levels_ > kMaxLevels) Fail("at most " + std::to_string(kMaxLevels) + " levels of an expression");
    const std::uint32_t operand = InnerOperand();
    --levels_;
    return operand;
  }

  std::uint32_t InnerOperand() {
    if (const auto variable = nodes_.find(token_); variable != nodes_.end()) {
      Next();
      return variable->second;
    }
    const std::size_t digits = token_ == "-" ? text_.find_first_not_of(" \t\r\n", start_ + 1) : start_;
    if (digits < text_.size() && IsDigit(text_[digits])) return Add(E::KIND_CONSTANT, Integer());
    if (Take("-")) return Negative(Operand());
    const bool is_minimum = token_ == "min";
    const bool is_function = is_minimum || token_ == "max";
    if (is_function) Next();
    if (!is_function && token_ != "(") Fail("an expression");
    Expect("(");
    std::uint32_t inner = Sum();
    if (is_function) {
      Expect(",");
      inner = Operation(is_minimum ? E::KIND_MINIMUM : E::KIND_MAXIMUM, inner, Sum());
    }
    Expect(")");
    return inner;
  }

  std::string_view text_;
  std::string_view token_;  // the current one; empty at the end of the text
  std::size_t start_ = 0;   // of the token
  bool is_after_newline_ = false;
  int levels_ = 0;
  v1::IndexingMap map_;
  std::unordered_map<std::string_view, std::uint32_t> nodes_;   // the expression of each variable
  std::unordered_map<std::uint32_t, v1::Variable*> variables_;  // by their expressions
};

}  // namespace

Map Map::Parse(std::string_view text) {
  text = text.substr(0, text.find("\nruntime variables:"));
  std::string words;  // without spaces
  for (const char c : text.substr(0, text.size() < 64 ? text.size() : 0)) words += IsSpace(c) ? "" : std::string(1, c);
  v1::IndexingMap map;
  if (words == "KNOWNEMPTY" && text.find("KNOWNEMPTY") == text.npos) {
    map.set_state(v1::IndexingMap::STATE_KNOWN_EMPTY);
  } else if (words == "UNDEFINED") {
    map.set_state(v1::IndexingMap::STATE_UNDEFINED);
  } else {
    map = Parser(text).Read();
  }
  return Map(std::move(map));
}

}  // namespace xlashape
