#ifndef XLASHAPE_SRC_INTEGERS_H_
#define XLASHAPE_SRC_INTEGERS_H_

#include <algorithm>
#include <string>

#include "xlashape/v1/types.pb.h"

namespace xlashape {

__extension__ typedef __int128 Int128;

/// Whether an expression computes something of operands.
inline bool IsOperation(v1::Expression::Kind kind) { return kind >= v1::Expression::KIND_ADD && kind <= v1::Expression::KIND_MAXIMUM; }

/// Whether an expression has exactly two operands, of which the second one is a positive constant.
inline bool Divides(v1::Expression::Kind kind) { return kind >= v1::Expression::KIND_FLOOR_DIVIDE && kind <= v1::Expression::KIND_MODULO; }

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
