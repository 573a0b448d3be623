#ifndef XLASHAPE_SRC_INTEGERS_H_
#define XLASHAPE_SRC_INTEGERS_H_

#include <algorithm>
#include <string>
#include <type_traits>

#include "xlashape/v1/types.pb.h"

namespace xlashape {

__extension__ typedef __int128 Int128;

/// Whether an expression computes something of operands.
inline bool IsOperation(v1::Expression::Kind kind) { return kind >= v1::Expression::KIND_ADD && kind <= v1::Expression::KIND_MAXIMUM; }

/// *out = a operation b; false if that does not fit. Divisors are positive.
template <v1::Expression::Kind kind, class Integer>
bool Operate(Integer a, Integer b, Integer* out) {
  if constexpr (kind == v1::Expression::KIND_ADD) {
    return !__builtin_add_overflow(a, b, out);
  } else if constexpr (kind == v1::Expression::KIND_MULTIPLY) {
    return !__builtin_mul_overflow(a, b, out);
  } else if constexpr (kind == v1::Expression::KIND_FLOOR_DIVIDE) {
    *out = a / b - (a % b < 0);
  } else if constexpr (kind == v1::Expression::KIND_CEIL_DIVIDE) {
    *out = a / b + (a % b > 0);
  } else if constexpr (kind == v1::Expression::KIND_MODULO) {
    const Integer remainder = a % b;
    *out = remainder < 0 ? remainder + b : remainder;
  } else if constexpr (kind == v1::Expression::KIND_MINIMUM) {
    *out = std::min(a, b);
  } else {
    static_assert(kind == v1::Expression::KIND_MAXIMUM);
    *out = std::max(a, b);
  }
  return true;
}

/// Calls `function` with the kind of an operation as a constant.
template <class Function>
bool WithKind(v1::Expression::Kind kind, Function function) {
  using E = v1::Expression;
  switch (kind) {
    case E::KIND_ADD:
      return function(std::integral_constant<E::Kind, E::KIND_ADD>());
    case E::KIND_MULTIPLY:
      return function(std::integral_constant<E::Kind, E::KIND_MULTIPLY>());
    case E::KIND_FLOOR_DIVIDE:
      return function(std::integral_constant<E::Kind, E::KIND_FLOOR_DIVIDE>());
    case E::KIND_CEIL_DIVIDE:
      return function(std::integral_constant<E::Kind, E::KIND_CEIL_DIVIDE>());
    case E::KIND_MODULO:
      return function(std::integral_constant<E::Kind, E::KIND_MODULO>());
    case E::KIND_MINIMUM:
      return function(std::integral_constant<E::Kind, E::KIND_MINIMUM>());
    default:
      return function(std::integral_constant<E::Kind, E::KIND_MAXIMUM>());
  }
}

/// The decimal digits of a number.
inline std::string Text(Int128 value) {
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

}  // namespace xlashape

#endif  // XLASHAPE_SRC_INTEGERS_H_
