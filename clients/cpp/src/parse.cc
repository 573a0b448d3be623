// The text of maps. Neither reading nor evaluating recurses, so that deep expressions take no stack.
//
//   map     := 'KNOWN EMPTY' | 'UNDEFINED' | '(' names ')' ['[' names ']'] ['{' names '}'] '->' '(' [expr {',' expr}] ')' [','] ['domain' ':' items]
//   items   := [item {(',' | newline) item}] [',']
//   item    := expr 'in' '[' integer ',' integer ']' | 'is_simplified' ':' word
//   expr    := product {('+' | '-') product}
//   product := unary {('*' | '/' | 'floordiv' | 'ceildiv' | 'mod') unary}
//   unary   := '-' unary | integer | name | '(' expr ')' | ('min' | 'max') '(' expr ',' expr ')'

#include <charconv>
#include <cstdint>
#include <set>
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

bool IsReserved(std::string_view word) {
  for (const std::string_view reserved : {"min", "max", "mod", "floordiv", "ceildiv", "in", "domain"}) {
    if (word == reserved) return true;
  }
  return false;
}

/// What waits in an expression for its right operand, or for its end.
struct Pending {
  enum What { kOperator, kMinus, kParenthesis, kFirstArgument, kSecondArgument } what;
  E::Kind kind;     // of an operator or a function
  int precedence;   // of an operator or a minus; 0 for what waits for its end
  bool is_negated;  // of an operator: whether it subtracts
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) { Next(); }

  v1::IndexingMap Read() {
    Declare("(", ")", E::KIND_DIMENSION, "d", map_.mutable_dimensions());
    if (token_ == "[") Declare("[", "]", E::KIND_RANGE, "s", map_.mutable_ranges());
    if (token_ == "{") Declare("{", "}", E::KIND_RUNTIME, "rt", map_.mutable_runtime());
    Expect("->");
    Expect("(");
    while (!Take(")")) {
      map_.add_results(Expression());
      if (token_ != ")") Expect(",");
    }
    Take(",");
    if (Take("domain")) {
      Expect(":");
      while (!token_.empty()) {
        Item();
        if (!Take(",") && !is_after_newline_) break;
      }
    }
    if (!token_.empty()) Fail("the end of the text");
    if (bounded_.size() < variables_.size()) Fail("a domain with an interval for every variable");
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
    const bool divides = kind == E::KIND_FLOOR_DIVIDE || kind == E::KIND_CEIL_DIVIDE || kind == E::KIND_MODULO;
    std::int64_t value = 0;
    if (left.kind() == E::KIND_CONSTANT && right.kind() == E::KIND_CONSTANT && !(divides && right.value() <= 0) &&
        WithKind(kind, [&](auto known) { return Operate<known.value>(left.value(), right.value(), &value); })) {
      return Add(E::KIND_CONSTANT, value);
    }
    const std::uint32_t node = Add(kind, 0);
    E* made = map_.mutable_expressions(static_cast<int>(node));
    made->add_operands(a);
    made->add_operands(b);
    return node;
  }

  std::uint32_t Negative(std::uint32_t of) { return Operation(E::KIND_MULTIPLY, of, Add(E::KIND_CONSTANT, -1)); }

  /// Reads the names of variables, and makes an expression of each.
  void Declare(std::string_view open, std::string_view end, E::Kind kind, const std::string& prefix, Variables* variables) {
    Expect(open);
    while (!Take(end)) {
      if (token_.empty() || !IsLetter(token_[0]) || IsReserved(token_) || variables_.count(token_) != 0) Fail("the name of a new variable");
      const int number = variables->size();
      v1::Variable* variable = variables->Add();
      if (token_ != prefix + std::to_string(number)) variable->set_name(std::string(token_));
      variables_[token_] = Add(kind, number);
      Next();
      if (token_ != end) Expect(",");
    }
  }

  /// Reads an interval of a variable, or a constraint.
  void Item() {
    if (Take("is_simplified")) {
      Expect(":");
      if (token_ != "true" && token_ != "false") Fail("'true' or 'false'");
      Next();
      return;
    }
    const std::uint32_t expression = Expression();
    Expect("in");
    Expect("[");
    v1::Interval interval;
    interval.set_lower(Integer());
    Expect(",");
    interval.set_upper(Integer());
    Expect("]");
    const E& node = map_.expressions(static_cast<int>(expression));
    v1::Interval* bounds = nullptr;
    switch (node.kind()) {
      case E::KIND_DIMENSION:
        bounds = map_.mutable_dimensions(static_cast<int>(node.value()))->mutable_bounds();
        break;
      case E::KIND_RANGE:
        bounds = map_.mutable_ranges(static_cast<int>(node.value()))->mutable_bounds();
        break;
      case E::KIND_RUNTIME:
        bounds = map_.mutable_runtime(static_cast<int>(node.value()))->mutable_bounds();
        break;
      default: {
        v1::Constraint* constraint = map_.add_constraints();
        constraint->set_expression(expression);
        *constraint->mutable_bounds() = interval;
        return;
      }
    }
    if (!bounded_.insert(expression).second) {
      interval.set_lower(std::max(interval.lower(), bounds->lower()));
      interval.set_upper(std::min(interval.upper(), bounds->upper()));
    }
    *bounds = interval;
  }

  std::int64_t Integer() {
    const bool is_negative = Take("-");
    return Digits(is_negative);
  }

  std::int64_t Digits(bool is_negative) {
    const std::string digits = (is_negative ? "-" : "") + std::string(token_);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (!StartsNumber(token_) || error != std::errc() || end != digits.data() + digits.size()) Fail("an integer of 64 bits");
    Next();
    return value;
  }

  /// Reads an expression, and returns the position of its node.
  std::uint32_t Expression() {
    std::vector<Pending> pending;
    std::vector<std::uint32_t> operands;
    while (true) {
      Operand(&pending, &operands);
      if (!Continues(&pending, &operands)) return operands.back();
    }
  }

  /// Reads one number or variable, and what opens before it.
  void Operand(std::vector<Pending>* pending, std::vector<std::uint32_t>* operands) {
    while (true) {
      if (Take("-")) {
        if (StartsNumber(token_)) {  // the least int64 has no positive counterpart, so the sign belongs to the number
          operands->push_back(Add(E::KIND_CONSTANT, Digits(true)));
          return;
        }
        pending->push_back({Pending::kMinus, E::KIND_MULTIPLY, 3, false});
      } else if (Take("(")) {
        pending->push_back({Pending::kParenthesis, E::KIND_UNSPECIFIED, 0, false});
      } else if (token_ == "min" || token_ == "max") {
        pending->push_back({Pending::kFirstArgument, token_ == "min" ? E::KIND_MINIMUM : E::KIND_MAXIMUM, 0, false});
        Next();
        Expect("(");
      } else if (StartsNumber(token_)) {
        operands->push_back(Add(E::KIND_CONSTANT, Digits(false)));
        return;
      } else {
        const auto variable = variables_.find(token_);
        if (variable == variables_.end()) Fail("an expression");
        operands->push_back(variable->second);
        Next();
        return;
      }
    }
  }

  /// Reads what follows an operand. Whether another operand follows.
  bool Continues(std::vector<Pending>* pending, std::vector<std::uint32_t>* operands) {
    while (true) {
      if (const int precedence = Precedence(token_); precedence > 0) {
        Complete(precedence, pending, operands);
        pending->push_back({Pending::kOperator, KindOf(token_), precedence, token_ == "-"});
        Next();
        return true;
      }
      Complete(1, pending, operands);
      if (pending->empty()) return false;
      Pending& open = pending->back();
      if (open.what == Pending::kFirstArgument) {
        Expect(",");
        open.what = Pending::kSecondArgument;
        return true;
      }
      Expect(")");
      const Pending closed = open;
      pending->pop_back();
      if (closed.what == Pending::kSecondArgument) Combine(closed.kind, operands);
    }
  }

  /// Applies all that waits and binds at least as tightly.
  void Complete(int precedence, std::vector<Pending>* pending, std::vector<std::uint32_t>* operands) {
    while (!pending->empty() && pending->back().precedence >= precedence) {
      const Pending last = pending->back();
      pending->pop_back();
      if (last.what == Pending::kMinus || last.is_negated) operands->back() = Negative(operands->back());
      if (last.what == Pending::kOperator) Combine(last.kind, operands);
    }
  }

  void Combine(E::Kind kind, std::vector<std::uint32_t>* operands) {
    const std::uint32_t right = operands->back();
    operands->pop_back();
    operands->back() = Operation(kind, operands->back(), right);
  }

  static int Precedence(std::string_view token) {
    if (token == "+" || token == "-") return 1;
    return token == "*" || token == "/" || token == "floordiv" || token == "ceildiv" || token == "mod" ? 2 : 0;
  }

  static E::Kind KindOf(std::string_view token) {
    if (token == "+" || token == "-") return E::KIND_ADD;
    if (token == "*") return E::KIND_MULTIPLY;
    if (token == "ceildiv") return E::KIND_CEIL_DIVIDE;
    return token == "mod" ? E::KIND_MODULO : E::KIND_FLOOR_DIVIDE;
  }

  std::string_view text_;
  std::string_view token_;  // the current one; empty at the end of the text
  std::size_t start_ = 0;   // of the token
  bool is_after_newline_ = false;
  v1::IndexingMap map_;
  std::unordered_map<std::string_view, std::uint32_t> variables_;  // the expression of each
  std::set<std::uint32_t> bounded_;                                // the expressions of variables that have an interval
};

/// The words of a text, with one space between them.
std::string Words(std::string_view text) {
  std::string words;
  for (const char c : text) {
    if (!IsSpace(c)) words += c;
    else if (!words.empty() && words.back() != ' ') words += ' ';
  }
  if (!words.empty() && words.back() == ' ') words.pop_back();
  return words;
}

}  // namespace

Map Map::Parse(std::string_view text) {
  text = text.substr(0, text.find("\nruntime variables:"));
  v1::IndexingMap map;
  const std::string words = text.size() < 64 ? Words(text) : "";
  if (words == "KNOWN EMPTY") {
    map.set_state(v1::IndexingMap::STATE_KNOWN_EMPTY);
  } else if (words == "UNDEFINED") {
    map.set_state(v1::IndexingMap::STATE_UNDEFINED);
  } else {
    map = Parser(text).Read();
  }
  return Map(std::move(map));
}

}  // namespace xlashape
