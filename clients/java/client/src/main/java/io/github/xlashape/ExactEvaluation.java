package io.github.xlashape;

import io.github.xlashape.v1.Constraint;
import io.github.xlashape.v1.Expression;
import io.github.xlashape.v1.IndexingMap;
import java.math.BigInteger;

/** Evaluation with integers of any size, for points at which a number does not fit {@code long}. */
final class ExactEvaluation {
  /** Maps of XLA stay below 128 bits. A map that multiplies without end must not take all memory. */
  private static final int MAX_BITS = 1 << 16;

  private ExactEvaluation() {}

  /** Evaluates at the point from `from` on, whose variables are in their bounds, and writes from `to` on. Whether it is in the domain. */
  static boolean evaluate(IndexingMap map, EvaluableMap.Node[] nodes, long[] points, int from, long[] results, int to) {
    BigInteger[] values = new BigInteger[nodes.length];
    for (int i = 0; i < nodes.length; i++) {
      EvaluableMap.Node node = nodes[i];
      switch (node.kind()) {
        case KIND_CONSTANT -> values[i] = BigInteger.valueOf(node.value());
        case KIND_DIMENSION, KIND_RANGE, KIND_RUNTIME -> values[i] = BigInteger.valueOf(points[from + (int) node.value()]);
        default -> {
          BigInteger value = values[node.operands()[0]];
          for (int j = 1; j < node.operands().length; j++) {
            value = combined(node.kind(), value, values[node.operands()[j]]);
            if (value.bitLength() > MAX_BITS) {
              throw XlashapeException.mistake("SIZE_OVERFLOW", "map", "expression " + i + " has more than " + MAX_BITS + " bits");
            }
          }
          values[i] = value;
        }
      }
    }
    for (Constraint constraint : map.getConstraintsList()) {
      BigInteger value = values[constraint.getExpression()];
      if (value.compareTo(BigInteger.valueOf(constraint.getBounds().getLower())) < 0
          || value.compareTo(BigInteger.valueOf(constraint.getBounds().getUpper())) > 0) {
        return false;
      }
    }
    for (int j = 0; j < map.getResultsCount(); j++) {
      BigInteger value = values[map.getResults(j)];
      if (value.bitLength() > 63) {
        throw XlashapeException.mistake("SIZE_OVERFLOW", "map", "result " + j + " does not fit long: " + value);
      }
      results[to + j] = value.longValue();
    }
    return true;
  }

  private static BigInteger combined(Expression.Kind kind, BigInteger a, BigInteger b) {
    return switch (kind) {
      case KIND_ADD -> a.add(b);
      case KIND_MULTIPLY -> a.multiply(b);
      case KIND_FLOOR_DIVIDE -> a.subtract(a.mod(b)).divide(b);
      case KIND_CEIL_DIVIDE -> a.add(a.negate().mod(b)).divide(b);
      case KIND_MODULO -> a.mod(b); // never negative
      case KIND_MINIMUM -> a.min(b);
      default -> a.max(b);
    };
  }
}
