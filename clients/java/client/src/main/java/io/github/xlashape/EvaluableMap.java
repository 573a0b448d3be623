package io.github.xlashape;

import io.github.xlashape.v1.Constraint;
import io.github.xlashape.v1.Expression;
import io.github.xlashape.v1.IndexingMap;
import io.github.xlashape.v1.Variable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * An indexing map that can be evaluated without a server. It is immutable.
 *
 * <pre>{@code
 * EvaluableMap map = EvaluableMap.parse("(d0) -> (d0 floordiv 4, d0 mod 4), domain: d0 in [-8, 8]");
 * map.evaluate(-3); // -1, 1
 * map.evaluate(9);  // null: outside the domain
 * }</pre>
 *
 * <p>Division rounds towards minus infinity, and a remainder is never negative, as in XLA. Values between are exact, whatever their size; a result that
 * does not fit {@code long} is an error.
 */
public final class EvaluableMap {
  /** The numbers that a block of points has for all nodes together. They fit into the processor's cache. */
  private static final int BLOCK_NUMBERS = 1 << 15;

  /** The most points of a block. */
  private static final int BLOCK_POINTS = 512;

  private final IndexingMap message;
  private final boolean isEmpty;
  private final long[] lower; // of each variable: dimensions, ranges, runtime
  private final long[] upper;
  private final Node[] nodes;

  /** A node; `value` is that of a constant, or of a variable its position in a point. */
  record Node(Expression.Kind kind, long value, int[] operands) {}

  private EvaluableMap(IndexingMap message) {
    this.message = message;
    switch (message.getState()) {
      case STATE_UNSPECIFIED, STATE_DEFINED, STATE_KNOWN_EMPTY -> isEmpty = message.getState() == IndexingMap.State.STATE_KNOWN_EMPTY;
      case STATE_UNDEFINED -> throw invalid("state", "an undefined map cannot be evaluated");
      default -> throw invalid("state", "unknown state " + message.getStateValue());
    }
    List<Variable> variables = new ArrayList<>(message.getDimensionsList());
    variables.addAll(message.getRangesList());
    variables.addAll(message.getRuntimeList());
    lower = variables.stream().mapToLong(variable -> variable.getBounds().getLower()).toArray();
    upper = variables.stream().mapToLong(variable -> variable.getBounds().getUpper()).toArray();
    nodes = new Node[message.getExpressionsCount()];
    for (int i = 0; i < nodes.length; i++) {
      nodes[i] = node(i, message.getExpressions(i));
    }
    for (int result : message.getResultsList()) {
      checkNode("results", result);
    }
    for (Constraint constraint : message.getConstraintsList()) {
      checkNode("constraints", constraint.getExpression());
    }
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

  /**
   * Reads a map in text, as XLA or as MLIR writes it: {@code (d0)[s0]{rt0} -> (d0 * 4 + s0), domain: d0 in [0, 9], s0 in [0, 3], rt0 in [0, 1]}.
   * The lines after {@code runtime variables:}, which say where their values come from, are not read.
   *
   * @param text expressions have {@code +}, {@code -}, {@code *}, {@code /} or {@code floordiv}, {@code ceildiv}, {@code mod}, {@code min(a, b)} and
   *     {@code max(a, b)}
   * @return the map
   * @throws XlashapeException if the text is wrong: the reason is PARSE, with line and column, or INVALID_MAP as in {@link #of}
   */
  public static EvaluableMap parse(String text) {
    return new EvaluableMap(MapParser.parse(text));
  }

  private static XlashapeException invalid(String field, String message) {
    return XlashapeException.mistake("INVALID_MAP", field, message);
  }

  private void checkNode(String field, int position) {
    if (position < 0 || position >= nodes.length) {
      throw invalid(field, "there are " + nodes.length + " expressions, and number " + Integer.toUnsignedString(position) + " is used");
    }
  }

  private Node node(int i, Expression expression) {
    int dimensions = message.getDimensionsCount();
    int ranges = message.getRangesCount();
    return switch (expression.getKind()) {
      case KIND_CONSTANT -> new Node(expression.getKind(), expression.getValue(), new int[0]);
      case KIND_DIMENSION -> variable(i, expression, 0, dimensions);
      case KIND_RANGE -> variable(i, expression, dimensions, ranges);
      case KIND_RUNTIME -> variable(i, expression, dimensions + ranges, message.getRuntimeCount());
      case KIND_ADD, KIND_MULTIPLY, KIND_FLOOR_DIVIDE, KIND_CEIL_DIVIDE, KIND_MODULO, KIND_MINIMUM, KIND_MAXIMUM -> operation(i, expression);
      default -> throw invalid("expressions", "expression " + i + " is of an unknown kind");
    };
  }

  private static Node variable(int i, Expression expression, int first, int count) {
    if (expression.getValue() < 0 || expression.getValue() >= count) {
      throw invalid("expressions", "expression " + i + " is a variable that the map does not have");
    }
    return new Node(expression.getKind(), first + expression.getValue(), new int[0]);
  }

  private Node operation(int i, Expression expression) {
    int[] operands = new int[expression.getOperandsCount()];
    for (int j = 0; j < operands.length; j++) {
      operands[j] = expression.getOperands(j);
      if (operands[j] < 0 || operands[j] >= i) {
        throw invalid("expressions", "expression " + i + " uses itself or a later expression");
      }
    }
    switch (expression.getKind()) {
      case KIND_FLOOR_DIVIDE, KIND_CEIL_DIVIDE, KIND_MODULO -> {
        if (operands.length != 2) {
          throw invalid("expressions", "expression " + i + " divides, and has not exactly two operands");
        }
        Node divisor = nodes[operands[1]];
        if (divisor.kind != Expression.Kind.KIND_CONSTANT || divisor.value <= 0) {
          throw invalid("expressions", "expression " + i + " divides by what is not a positive constant");
        }
      }
      default -> {
        if (operands.length < 2) {
          throw invalid("expressions", "expression " + i + " has fewer than two operands");
        }
      }
    }
    return new Node(expression.getKind(), 0, operands);
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
    return lower.length;
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
   * @throws XlashapeException if the point has too few or too many numbers: the reason is INVALID_INDEX; or if a result does not fit {@code long}:
   *     SIZE_OVERFLOW
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
    int width = lower.length;
    if (count < 0 || points.length != (long) count * width) {
      throw XlashapeException.mistake(
          "INVALID_INDEX", "points", count + " points of " + width + " variables have " + (long) count * width + " numbers, found " + points.length);
    }
    long size = (long) count * results();
    if (size > Integer.MAX_VALUE - 8) {
      throw XlashapeException.mistake("SIZE_OVERFLOW", "points", "the results are " + size + " numbers, more than an array has");
    }
    MapValues values = new MapValues(new long[(int) size], new boolean[count]);
    int block = Math.max(1, Math.min(Math.min(count, BLOCK_POINTS), BLOCK_NUMBERS / Math.max(nodes.length, 1)));
    Block evaluation = new Block(points, values, block);
    for (int start = 0; start < count; start += block) {
      evaluation.evaluate(start, Math.min(block, count - start));
    }
    return values;
  }

  @Override
  public String toString() {
    return "EvaluableMap(" + lower.length + " variables, " + nodes.length + " expressions, " + results() + " results)";
  }

  /** Some points, for which node after node is evaluated. */
  private final class Block {
    private final long[] points;
    private final MapValues values;
    private final int size;
    private final long[] numbers; // `size` numbers of each node

    Block(long[] points, MapValues values, int size) {
      this.points = points;
      this.values = values;
      this.size = size;
      numbers = new long[nodes.length * size];
    }

    /** If a number of any point does not fit, every point by itself; and a point whose numbers do not fit with larger integers. */
    void evaluate(int start, int count) {
      bound(start, count);
      if (fits(start, count)) {
        constrain(start, count);
        give(start, count);
        return;
      }
      for (int i = start; i < start + count; i++) {
        if (!values.inDomain()[i]) {
          continue;
        }
        if (count > 1 && fits(i, 1)) {
          constrain(i, 1);
          give(i, 1);
        } else {
          values.inDomain()[i] = ExactEvaluation.evaluate(message, nodes, points, i * lower.length, values.results(), i * results());
        }
      }
    }

    private void bound(int start, int count) {
      int width = lower.length;
      for (int i = start; i < start + count; i++) {
        boolean isInside = !isEmpty;
        for (int j = 0; j < width; j++) {
          long number = points[i * width + j];
          isInside &= number >= lower[j] && number <= upper[j];
        }
        values.inDomain()[i] = isInside;
      }
    }

    private void constrain(int start, int count) {
      for (Constraint constraint : message.getConstraintsList()) {
        int row = constraint.getExpression() * size;
        long least = constraint.getBounds().getLower();
        long greatest = constraint.getBounds().getUpper();
        for (int i = 0; i < count; i++) {
          values.inDomain()[start + i] &= numbers[row + i] >= least && numbers[row + i] <= greatest;
        }
      }
    }

    private void give(int start, int count) {
      int width = results();
      for (int j = 0; j < width; j++) {
        int row = message.getResults(j) * size;
        for (int i = 0; i < count; i++) {
          values.results()[(start + i) * width + j] = values.inDomain()[start + i] ? numbers[row + i] : 0;
        }
      }
    }

    /** Computes the numbers of all nodes; false if one does not fit. */
    private boolean fits(int start, int count) {
      for (int n = 0; n < nodes.length; n++) {
        Node node = nodes[n];
        int row = n * size;
        switch (node.kind) {
          case KIND_CONSTANT -> Arrays.fill(numbers, row, row + count, node.value);
          case KIND_DIMENSION, KIND_RANGE, KIND_RUNTIME -> {
            int width = lower.length;
            for (int i = 0; i < count; i++) {
              numbers[row + i] = points[(start + i) * width + (int) node.value];
            }
          }
          default -> {
            int first = node.operands[0] * size;
            for (int j = 1; j < node.operands.length; j++) {
              if (!combine(node.kind, first, node.operands[j], row, count)) {
                return false;
              }
              first = row;
            }
          }
        }
      }
      return true;
    }

    private boolean combine(Expression.Kind kind, int a, int operand, int row, int count) {
      int b = operand * size;
      long divisor = nodes[operand].value;
      switch (kind) {
        case KIND_ADD:
          return add(numbers, a, b, row, count);
        case KIND_MULTIPLY:
          return multiply(numbers, a, b, row, count);
        case KIND_FLOOR_DIVIDE:
          floorDivide(numbers, a, divisor, row, count);
          return true;
        case KIND_CEIL_DIVIDE:
          ceilDivide(numbers, a, divisor, row, count);
          return true;
        case KIND_MODULO:
          modulo(numbers, a, divisor, row, count);
          return true;
        case KIND_MINIMUM:
          for (int i = 0; i < count; i++) {
            numbers[row + i] = Math.min(numbers[a + i], numbers[b + i]);
          }
          return true;
        default:
          for (int i = 0; i < count; i++) {
            numbers[row + i] = Math.max(numbers[a + i], numbers[b + i]);
          }
          return true;
      }
    }
  }

  private static boolean add(long[] numbers, int a, int b, int row, int count) {
    long overflow = 0;
    for (int i = 0; i < count; i++) {
      long x = numbers[a + i];
      long y = numbers[b + i];
      long sum = x + y;
      overflow |= (x ^ sum) & (y ^ sum); // the sign differs from those of both summands
      numbers[row + i] = sum;
    }
    return overflow >= 0;
  }

  private static boolean multiply(long[] numbers, int a, int b, int row, int count) {
    long overflow = 0;
    for (int i = 0; i < count; i++) {
      long x = numbers[a + i];
      long y = numbers[b + i];
      long product = x * y;
      overflow |= Math.multiplyHigh(x, y) ^ product >> 63; // the upper 64 of 128 bits are more than the sign
      numbers[row + i] = product;
    }
    return overflow == 0;
  }

  private static void floorDivide(long[] numbers, int a, long divisor, int row, int count) {
    if ((divisor & divisor - 1) == 0) {
      int shift = Long.numberOfTrailingZeros(divisor);
      for (int i = 0; i < count; i++) {
        numbers[row + i] = numbers[a + i] >> shift;
      }
    } else {
      for (int i = 0; i < count; i++) {
        numbers[row + i] = Math.floorDiv(numbers[a + i], divisor);
      }
    }
  }

  private static void ceilDivide(long[] numbers, int a, long divisor, int row, int count) {
    for (int i = 0; i < count; i++) {
      long value = numbers[a + i];
      // Not the negative of the negative's quotient: the least long has no negative.
      numbers[row + i] = value / divisor + (value % divisor > 0 ? 1 : 0);
    }
  }

  private static void modulo(long[] numbers, int a, long divisor, int row, int count) {
    if ((divisor & divisor - 1) == 0) {
      for (int i = 0; i < count; i++) {
        numbers[row + i] = numbers[a + i] & divisor - 1;
      }
    } else {
      for (int i = 0; i < count; i++) {
        numbers[row + i] = Math.floorMod(numbers[a + i], divisor);
      }
    }
  }
}
