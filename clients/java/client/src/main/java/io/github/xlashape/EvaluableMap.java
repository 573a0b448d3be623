package io.github.xlashape;

import io.github.xlashape.v1.Constraint;
import io.github.xlashape.v1.Expression;
import io.github.xlashape.v1.Expression.Kind;
import io.github.xlashape.v1.IndexingMap;
import io.github.xlashape.v1.IndexingMap.State;
import io.github.xlashape.v1.Interval;
import io.github.xlashape.v1.Variable;
import java.util.List;
import java.util.Set;
import java.util.function.LongBinaryOperator;
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
  /** The values of the operations, from KIND_ADD on. Divisors are positive. */
  private static final List<LongBinaryOperator> OPERATIONS = List.of(
      (a, b) -> a + b, (a, b) -> a * b, Math::floorDiv, (a, b) -> a / b + (a % b > 0 ? 1 : 0), Math::floorMod, Math::min, Math::max);

  private final IndexingMap message;
  private final List<Variable> variables;
  private final int[] starts; // of dimensions, ranges and runtime variables among all, and their end

  private EvaluableMap(IndexingMap message) {
    this.message = message;
    variables = Stream.of(message.getDimensionsList(), message.getRangesList(), message.getRuntimeList()).flatMap(List::stream).toList();
    int ranges = message.getDimensionsCount();
    starts = new int[] {0, ranges, ranges + message.getRangesCount(), variables.size()};
    boolean isDefined = Set.of(State.STATE_UNSPECIFIED, State.STATE_DEFINED, State.STATE_KNOWN_EMPTY).contains(message.getState());
    XlashapeException.check(isDefined, "INVALID_MAP", "state", "a map in state " + message.getStateValue() + " cannot be evaluated");
    String large = "values of the map may not fit int64: ask the server with EvaluateMap";
    XlashapeException.check(message.getFitsInt64(), "SIZE_OVERFLOW", "fits_int64", large);
    long[] values = new long[message.getExpressionsCount()];
    int known = evaluate(new long[variables()], 0, values); // which values there are is the same at all points
    Stream<Integer> used = Stream.concat(message.getResultsList().stream(), message.getConstraintsList().stream().map(Constraint::getExpression));
    boolean isWhole = known == values.length && used.allMatch(expression -> isBefore(expression, known));
    String wrong = "expression " + known + " is missing, or not one of the schema on variables and earlier expressions";
    XlashapeException.check(isWhole, "INVALID_MAP", "expressions", wrong);
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
    return variables.size();
  }

  /**
   * Returns how many numbers the map gives for a point.
   *
   * @return the number of results
   */
  public int results() {
    return message.getResultsCount();
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
    int width = variables();
    String found = points.length + " numbers are not " + count + " points of " + width + " variables";
    XlashapeException.check(count >= 0 && points.length == (long) count * width, "INVALID_INDEX", "points", found);
    long size = (long) count * results();
    XlashapeException.check(size < Integer.MAX_VALUE - 8, "SIZE_OVERFLOW", "points", "an array does not hold " + size + " results");
    MapValues answer = new MapValues(new long[(int) size], new boolean[count]);
    long[] values = new long[message.getExpressionsCount()];
    for (int i = 0; i < count; i++) {
      evaluate(points, i * width, values);
      answer.inDomain()[i] = isInDomain(points, i * width, values);
      for (int k = 0; answer.inDomain()[i] && k < results(); k++) {
        answer.results()[i * results() + k] = values[message.getResults(k)];
      }
    }
    return answer;
  }

  private boolean isInDomain(long[] points, int first, long[] values) {
    return message.getState() != State.STATE_KNOWN_EMPTY
        && IntStream.range(0, variables()).allMatch(i -> contains(variables.get(i).getBounds(), points[first + i]))
        && message.getConstraintsList().stream().allMatch(one -> contains(one.getBounds(), values[one.getExpression()]));
  }

  private static boolean contains(Interval bounds, long value) {
    return bounds.getLower() <= value && value <= bounds.getUpper();
  }

  /** Computes the values of the expressions at a point, which begins at `first`, up to the first one that contradicts the schema. Returns their number. */
  private int evaluate(long[] points, int first, long[] values) {
    for (int i = 0; i < values.length; i++) {
      Expression expression = message.getExpressions(i);
      List<Integer> operands = expression.getOperandsList();
      int group = expression.getKindValue() - Kind.KIND_DIMENSION_VALUE;
      long value = expression.getValue();
      if (group >= 0 && group < 3 && value >= 0 && value < starts[group + 1] - starts[group]) {
        value = points[first + starts[group] + (int) value];
      } else if (isOperation(expression, i)) {
        value = values[operands.get(0)];
        for (int operand : operands.subList(1, operands.size())) {
          value = OPERATIONS.get(expression.getKindValue() - Kind.KIND_ADD_VALUE).applyAsLong(value, values[operand]);
        }
      } else if (expression.getKind() != Kind.KIND_CONSTANT) {
        return i;
      }
      values[i] = value;
    }
    return values.length;
  }

  private boolean isOperation(Expression expression, int end) {
    List<Integer> operands = expression.getOperandsList();
    int operation = expression.getKindValue() - Kind.KIND_ADD_VALUE;
    if (operation < 0 || operation >= OPERATIONS.size() || operands.size() < 2 || !operands.stream().allMatch(operand -> isBefore(operand, end))) {
      return false;
    }
    Expression divisor = message.getExpressions(operands.get(1));
    boolean isDivision = Set.of(Kind.KIND_FLOOR_DIVIDE, Kind.KIND_CEIL_DIVIDE, Kind.KIND_MODULO).contains(expression.getKind());
    return !isDivision || operands.size() == 2 && divisor.getKind() == Kind.KIND_CONSTANT && divisor.getValue() > 0;
  }
}
