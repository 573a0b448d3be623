package io.github.xlashape;

import io.github.xlashape.v1.Constraint;
import io.github.xlashape.v1.Expression;
import io.github.xlashape.v1.Expression.Kind;
import io.github.xlashape.v1.IndexingMap;
import io.github.xlashape.v1.Interval;
import io.github.xlashape.v1.Variable;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * An indexing map that can be evaluated without a server. It is immutable.
 *
 * <pre>{@code
 * EvaluableMap map = EvaluableMap.of(client.parseMap(Inputs.mapText("(d0) -> (d0 floordiv 4, d0 mod 4), domain: d0 in [-8, 8]")).getMap());
 * map.evaluate(-3); // -1, 1
 * map.evaluate(9);  // null: outside the domain
 * }</pre>
 *
 * <p>Division rounds towards minus infinity, and a remainder is never negative, as in XLA.
 */
public final class EvaluableMap {
  private final IndexingMap message;
  private final Interval[] bounds; // of each variable: dimensions, ranges, runtime
  private final Node[] nodes;
  private final int[] results; // expressions

  /** An expression. The value of a variable is its index in a point. */
  private record Node(Kind kind, long value, int[] operands) {}

  private EvaluableMap(IndexingMap message) {
    this.message = message;
    boolean isKnown = message.getState() != IndexingMap.State.STATE_UNDEFINED && message.getState() != IndexingMap.State.UNRECOGNIZED;
    XlashapeException.check(isKnown, "INVALID_MAP", "state", "a map in state " + message.getStateValue() + " cannot be evaluated");
    String large = "values of the map may not fit int64: ask the server with EvaluateMap";
    XlashapeException.check(message.getFitsInt64(), "SIZE_OVERFLOW", "fits_int64", large);
    List<List<Variable>> groups = List.of(message.getDimensionsList(), message.getRangesList(), message.getRuntimeList());
    bounds = groups.stream().flatMap(List::stream).map(Variable::getBounds).toArray(Interval[]::new);
    nodes = new Node[message.getExpressionsCount()];
    for (int i = 0; i < nodes.length; i++) {
      Node node = nodeOf(message.getExpressions(i), groups, i);
      XlashapeException.check(
          node != null, "INVALID_MAP", "expressions[" + i + "]", "is not an expression of the schema on variables and earlier expressions");
      nodes[i] = node;
    }
    results = message.getResultsList().stream().mapToInt(Integer::intValue).toArray();
    Stream<Integer> used = Stream.concat(message.getResultsList().stream(), message.getConstraintsList().stream().map(Constraint::getExpression));
    boolean isThere = used.allMatch(expression -> isBefore(expression, nodes.length));
    XlashapeException.check(isThere, "INVALID_MAP", "", "a result or a constraint is of an expression that is not there");
  }

  /**
   * Checks a map, and prepares it for evaluation with {@code long}.
   *
   * @param message a map, such as one of an answer of the server
   * @return the map
   * @throws XlashapeException if the map is not marked as one that fits, for which there is {@link XlashapeClient#evaluateMap}: the reason is SIZE_OVERFLOW;
   *     or if it is undefined or its fields contradict the schema: INVALID_MAP
   */
  public static EvaluableMap of(IndexingMap message) {
    return new EvaluableMap(message);
  }

  /** The node of expression number `i`, whose operands are in `nodes`; null if it cannot be. */
  private @Nullable Node nodeOf(Expression expression, List<List<Variable>> groups, int i) {
    long value = expression.getValue();
    int[] operands = expression.getOperandsList().stream().mapToInt(Integer::intValue).toArray();
    int group = expression.getKindValue() - Kind.KIND_DIMENSION_VALUE;
    boolean isValid = switch (expression.getKind()) {
      case KIND_UNSPECIFIED, UNRECOGNIZED -> false;
      case KIND_CONSTANT -> true;
      case KIND_DIMENSION, KIND_RANGE, KIND_RUNTIME -> value >= 0 && value < groups.get(group).size();
      default -> operands.length >= 2 && IntStream.of(operands).allMatch(operand -> isBefore(operand, i));
    };
    if (isValid && group >= 0 && group < groups.size()) {
      value += groups.subList(0, group).stream().mapToInt(List::size).sum();
    }
    if (isValid && List.of(Kind.KIND_FLOOR_DIVIDE, Kind.KIND_CEIL_DIVIDE, Kind.KIND_MODULO).contains(expression.getKind())) {
      Node divisor = nodes[operands[1]];
      isValid = operands.length == 2 && divisor.kind == Kind.KIND_CONSTANT && divisor.value > 0;
    }
    return isValid ? new Node(expression.getKind(), value, operands) : null;
  }

  private static boolean isBefore(int expression, int end) {
    return Integer.compareUnsigned(expression, end) < 0;
  }

  /**
   * Returns the message of the map, for requests.
   *
   * @return the message that the map was made of
   */
  public IndexingMap message() {
    return message;
  }

  /**
   * Returns how many numbers a point has: one for each dimension, range and runtime variable, in this order.
   *
   * @return the number of variables
   */
  public int variables() {
    return bounds.length;
  }

  /**
   * Returns how many numbers the map gives for a point.
   *
   * @return the number of results
   */
  public int results() {
    return results.length;
  }

  /**
   * Evaluates the map at a point.
   *
   * @param point one number for each variable: dimensions, ranges, runtime variables
   * @return the results; null if the point is outside the domain
   * @throws XlashapeException if the point has too few or too many numbers: the reason is INVALID_INDEX
   */
  public long @Nullable [] evaluate(long... point) {
    MapValues values = evaluateBatch(point, 1);
    return values.inDomain()[0] ? values.results() : null;
  }

  /**
   * Evaluates the map at many points.
   *
   * @param points the points one after another, each with one number for each variable
   * @param count the number of points
   * @return the results, and which points are in the domain
   * @throws XlashapeException as {@link #evaluate}; with the reason SIZE_OVERFLOW if the results are more than an array holds
   */
  public MapValues evaluateBatch(long[] points, int count) {
    int width = bounds.length;
    String found = points.length + " numbers are not " + count + " points of " + width + " variables";
    XlashapeException.check(count >= 0 && points.length == (long) count * width, "INVALID_INDEX", "points", found);
    long size = (long) count * results.length;
    XlashapeException.check(size < Integer.MAX_VALUE - 8, "SIZE_OVERFLOW", "points", "an array does not hold " + size + " results");
    MapValues answer = new MapValues(new long[(int) size], new boolean[count]);
    long[] values = new long[nodes.length];
    for (int i = 0; i < count; i++) {
      answer.inDomain()[i] = evaluate(points, i * width, values);
      for (int k = 0; answer.inDomain()[i] && k < results.length; k++) {
        answer.results()[i * results.length + k] = values[results[k]];
      }
    }
    return answer;
  }

  /** Computes the values of all expressions at a point, which begins at `first`. Whether it is in the domain. */
  private boolean evaluate(long[] points, int first, long[] values) {
    for (int i = 0; i < bounds.length; i++) {
      if (!contains(bounds[i], points[first + i])) {
        return false;
      }
    }
    for (int i = 0; i < nodes.length; i++) {
      Node node = nodes[i];
      switch (node.kind) {
        case KIND_CONSTANT -> values[i] = node.value;
        case KIND_DIMENSION, KIND_RANGE, KIND_RUNTIME -> values[i] = points[first + (int) node.value];
        default -> {
          long value = values[node.operands[0]];
          for (int k = 1; k < node.operands.length; k++) {
            value = combined(node.kind, value, values[node.operands[k]]);
          }
          values[i] = value;
        }
      }
    }
    for (Constraint constraint : message.getConstraintsList()) {
      if (!contains(constraint.getBounds(), values[constraint.getExpression()])) {
        return false;
      }
    }
    return message.getState() != IndexingMap.State.STATE_KNOWN_EMPTY;
  }

  private static boolean contains(Interval bounds, long value) {
    return bounds.getLower() <= value && value <= bounds.getUpper();
  }

  /** The value of an operation, whose divisor is positive. */
  private static long combined(Kind kind, long a, long b) {
    return switch (kind) {
      case KIND_ADD -> a + b;
      case KIND_MULTIPLY -> a * b;
      case KIND_FLOOR_DIVIDE -> Math.floorDiv(a, b);
      case KIND_CEIL_DIVIDE -> a / b + (a % b > 0 ? 1 : 0);
      case KIND_MODULO -> Math.floorMod(a, b);
      case KIND_MINIMUM -> Math.min(a, b);
      default -> Math.max(a, b);
    };
  }

  @Override
  public String toString() {
    return "EvaluableMap(" + bounds.length + " variables, " + nodes.length + " expressions, " + results.length + " results)";
  }
}
