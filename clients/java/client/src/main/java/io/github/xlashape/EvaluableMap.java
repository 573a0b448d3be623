package io.github.xlashape;

import io.github.xlashape.v1.Constraint;
import io.github.xlashape.v1.Expression;
import io.github.xlashape.v1.Expression.Kind;
import io.github.xlashape.v1.IndexingMap;
import io.github.xlashape.v1.Interval;
import io.github.xlashape.v1.Variable;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
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
 * <p>Division rounds towards minus infinity, and a remainder is never negative, as in XLA. Values between may have 128 bits; one that has
 * more, and a result that does not fit {@code long}, is an error.
 */
public final class EvaluableMap {
  private static final List<Kind> VARIABLES = List.of(Kind.KIND_DIMENSION, Kind.KIND_RANGE, Kind.KIND_RUNTIME);
  private static final List<Kind> DIVISIONS = List.of(Kind.KIND_FLOOR_DIVIDE, Kind.KIND_CEIL_DIVIDE, Kind.KIND_MODULO);

  private final IndexingMap message;
  private final Bounds[] bounds; // of each variable: dimensions, ranges, runtime. Their numbers are the first registers
  private final long[] initial; // what constants hold; 0 for all other registers
  private final Step[] steps;
  private final Bounds[] constraints;
  private final int[] results; // registers

  private record Bounds(int register, long lower, long upper) {
    boolean contain(long value) {
      return value >= lower && value <= upper;
    }
  }

  /** registers[target] = registers[left] kind registers[right]. */
  private record Step(Kind kind, int target, int left, int right) {}

  private EvaluableMap(IndexingMap message) {
    this.message = message;
    IndexingMap.State state = message.getState();
    boolean isDefined = state != IndexingMap.State.STATE_UNDEFINED && state != IndexingMap.State.UNRECOGNIZED;
    String cannot = "a map in state " + message.getStateValue() + " cannot be evaluated";
    XlashapeException.check(isDefined, "INVALID_MAP", "state", cannot);
    List<List<Variable>> groups = List.of(message.getDimensionsList(), message.getRangesList(), message.getRuntimeList());
    List<Variable> variables = groups.stream().flatMap(List::stream).toList();
    bounds = new Bounds[variables.size()];
    Arrays.setAll(bounds, i -> boundsOf(i, variables.get(i).getBounds()));
    List<Long> values = new ArrayList<>(variables.stream().map(variable -> 0L).toList());
    List<Step> computed = new ArrayList<>();
    int[] registers = new int[message.getExpressionsCount()]; // of the expressions
    for (int i = 0; i < registers.length; i++) {
      registers[i] = compiled(i, groups, registers, values, computed);
    }
    initial = values.stream().mapToLong(Long::longValue).toArray();
    steps = computed.toArray(Step[]::new);
    results = new int[message.getResultsCount()];
    Arrays.setAll(results, i -> register("results", i, message.getResults(i), registers));
    constraints = new Bounds[message.getConstraintsCount()];
    Arrays.setAll(constraints, i -> {
      Constraint constraint = message.getConstraints(i);
      return boundsOf(register("constraints", i, constraint.getExpression(), registers), constraint.getBounds());
    });
  }

  /**
   * Checks a map, and prepares it for evaluation.
   *
   * @param message a map, such as one of an answer of the server
   * @return the map
   * @throws XlashapeException if the map is undefined, or if an expression uses a later one, a variable that does not exist, a divisor that is not a
   *     positive constant, or too few operands; the reason is INVALID_MAP
   */
  public static EvaluableMap of(IndexingMap message) {
    return new EvaluableMap(message);
  }

  private static Bounds boundsOf(int register, Interval interval) {
    return new Bounds(register, interval.getLower(), interval.getUpper());
  }

  private static int register(String field, int i, int expression, int[] registers) {
    check(expression >= 0 && expression < registers.length, field, i, "there is no such expression");
    return registers[expression];
  }

  private static void check(boolean holds, String field, int i, String what) {
    if (!holds) {
      throw XlashapeException.mistake("INVALID_MAP", field + "[" + i + "]", what);
    }
  }

  /** The register of expression `i`, whose operands are in `registers`. Adds the steps that compute it. */
  private int compiled(int i, List<List<Variable>> groups, int[] registers, List<Long> values, List<Step> computed) {
    Expression expression = message.getExpressions(i);
    Kind kind = expression.getKind();
    long value = expression.getValue();
    List<Integer> operands = expression.getOperandsList();
    if (kind == Kind.KIND_CONSTANT) {
      values.add(value);
      return values.size() - 1;
    }
    int group = VARIABLES.indexOf(kind);
    if (group >= 0) {
      check(value >= 0 && value < groups.get(group).size(), "expressions", i, "is a variable that the map does not have");
      return groups.subList(0, group).stream().mapToInt(List::size).sum() + (int) value;
    }
    boolean divides = DIVISIONS.contains(kind);
    check(kind != Kind.KIND_UNSPECIFIED && kind != Kind.UNRECOGNIZED, "expressions", i, "is of an unknown kind");
    check(divides ? operands.size() == 2 : operands.size() >= 2, "expressions", i, "has too few operands, or too many");
    check(operands.stream().allMatch(operand -> operand >= 0 && operand < i), "expressions", i, "uses itself or a later expression");
    Expression divisor = message.getExpressions(operands.get(1));
    boolean isPositive = divisor.getKind() == Kind.KIND_CONSTANT && divisor.getValue() > 0;
    check(!divides || isPositive, "expressions", i, "divides by what is not a positive constant");
    int left = registers[operands.get(0)];
    for (int operand : operands.subList(1, operands.size())) {
      computed.add(new Step(kind, values.size(), left, registers[operand]));
      left = values.size();
      values.add(0L);
    }
    return left;
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
    return message.getResultsCount();
  }

  /**
   * Evaluates the map at a point.
   *
   * @param point one number for each variable: dimensions, ranges, runtime variables
   * @return the results; null if the point is outside the domain
   * @throws XlashapeException if the point has too few or too many numbers: the reason is INVALID_INDEX; or if a result does not fit {@code long},
   *     or a value on the way to the results or to a constraint does not fit 128 bits: SIZE_OVERFLOW
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
   * @throws XlashapeException as {@link #evaluate}
   */
  public MapValues evaluateBatch(long[] points, int count) {
    int width = bounds.length;
    if (count < 0 || points.length != (long) count * width) {
      throw XlashapeException.mistake(
          "INVALID_INDEX", "points", count + " points of " + width + " variables have " + (long) count * width + " numbers, found " + points.length);
    }
    long size = (long) count * results();
    if (size > Integer.MAX_VALUE - 8) {
      throw XlashapeException.mistake("SIZE_OVERFLOW", "points", "the results are " + size + " numbers, more than an array has");
    }
    MapValues values = new MapValues(new long[(int) size], new boolean[count]);
    boolean isPossible = message.getState() != IndexingMap.State.STATE_KNOWN_EMPTY;
    long[] registers = initial.clone();
    for (int i = 0; i < count; i++) {
      System.arraycopy(points, i * width, registers, 0, width);
      values.inDomain()[i] = isPossible && contain(bounds, registers) && evaluate(registers, values.results(), i);
    }
    return values;
  }

  private static boolean contain(Bounds[] all, long[] registers) {
    for (Bounds one : all) {
      if (!one.contain(registers[one.register])) {
        return false;
      }
    }
    return true;
  }

  /** Evaluates point number `point`, whose numbers are in the first registers, and writes its results. Whether it is in the domain. */
  private boolean evaluate(long[] registers, long[] written, int point) {
    try {
      for (Step step : steps) {
        registers[step.target] = combined(step.kind, registers[step.left], registers[step.right]);
      }
    } catch (ArithmeticException e) {
      return evaluateExactly(registers, written, point);
    }
    if (!contain(constraints, registers)) {
      return false;
    }
    for (int i = 0; i < results.length; i++) {
      written[point * results.length + i] = registers[results[i]];
    }
    return true;
  }

  /** The value of an operation, whose divisor is positive. Throws an ArithmeticException if it does not fit. */
  private static long combined(Kind kind, long a, long b) {
    return switch (kind) {
      case KIND_ADD -> Math.addExact(a, b);
      case KIND_MULTIPLY -> Math.multiplyExact(a, b);
      case KIND_FLOOR_DIVIDE -> Math.floorDiv(a, b);
      case KIND_CEIL_DIVIDE -> a / b + (a % b > 0 ? 1 : 0);
      case KIND_MODULO -> Math.floorMod(a, b);
      case KIND_MINIMUM -> Math.min(a, b);
      default -> Math.max(a, b);
    };
  }

  /** The same with integers of 128 bits. A value that does not fit is null, and so is what is computed from it. */
  private boolean evaluateExactly(long[] inputs, long[] written, int point) {
    BigInteger[] registers = Arrays.stream(inputs).mapToObj(BigInteger::valueOf).toArray(BigInteger[]::new);
    for (Step step : steps) {
      BigInteger a = registers[step.left];
      BigInteger b = registers[step.right];
      BigInteger value = a == null || b == null ? null : combined(step.kind, a, b);
      registers[step.target] = value == null || value.bitLength() > 127 ? null : value;
    }
    for (Bounds constraint : constraints) {
      BigInteger value = registers[constraint.register];
      if (value != null && (value.bitLength() > 63 || !constraint.contain(value.longValue()))) {
        return false;
      }
    }
    String field = bounds.length == 0 ? "map" : "points[" + point * bounds.length + "]";
    IntStream needed = IntStream.concat(Arrays.stream(results), Arrays.stream(constraints).mapToInt(Bounds::register));
    boolean fits = needed.allMatch(register -> registers[register] != null);
    XlashapeException.check(fits, "SIZE_OVERFLOW", field, "an expression takes a value of more than 128 bits");
    for (int i = 0; i < results.length; i++) {
      BigInteger value = registers[results[i]];
      if (value.bitLength() > 63) {
        throw XlashapeException.mistake("SIZE_OVERFLOW", field, "result " + i + " does not fit int64: " + value);
      }
      written[point * results.length + i] = value.longValue();
    }
    return true;
  }

  private static BigInteger combined(Kind kind, BigInteger a, BigInteger b) {
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

  @Override
  public String toString() {
    return "EvaluableMap(" + bounds.length + " variables, " + message.getExpressionsCount() + " expressions, " + results.length + " results)";
  }
}
