package io.github.xlashape;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.TextFormat;
import io.github.xlashape.v1.Expression;
import io.github.xlashape.v1.IndexingMap;
import java.math.BigInteger;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class EvaluableMapTest {
  private static String reasonOf(Runnable action) {
    return assertThrows(XlashapeException.class, action::run).getReason();
  }

  private static final String X = "expressions {kind: KIND_DIMENSION} ";
  private static final String Y = "expressions {kind: KIND_DIMENSION value: 1} ";
  private static final String ALL = dimension(Long.MIN_VALUE, Long.MAX_VALUE);

  /** A map in protobuf's text format. */
  private static IndexingMap message(String... text) {
    IndexingMap.Builder message = IndexingMap.newBuilder();
    try {
      TextFormat.merge(String.join("", text), message);
    } catch (TextFormat.ParseException e) {
      throw new IllegalArgumentException(e);
    }
    return message.build();
  }

  private static EvaluableMap map(String... text) {
    return EvaluableMap.of(message(text));
  }

  private static String dimension(long lower, long upper) {
    return "dimensions {bounds {lower: %d upper: %d}} ".formatted(lower, upper);
  }

  private static String constant(long value) {
    return "expressions {kind: KIND_CONSTANT value: %d} ".formatted(value);
  }

  /** An expression of two earlier ones. */
  private static String node(String kind, int left, int right) {
    return "expressions {kind: KIND_%s operands: [%d, %d]} ".formatted(kind, left, right);
  }

  @Test
  void divisionsOfNegativeNumbers() {
    for (long divisor : new long[] {3, 4}) { // powers of two have a way of their own
      EvaluableMap map = map(dimension(-9, 9), X, constant(divisor), constant(-2), node("FLOOR_DIVIDE", 0, 1), node("CEIL_DIVIDE", 0, 1),
          node("MODULO", 0, 1), node("MINIMUM", 0, 2), node("MAXIMUM", 0, 2), "results: [3, 4, 5, 6, 7]");
      for (long value = -9; value <= 9; value++) {
        long floor = (long) Math.floor((double) value / divisor);
        long[] expected = {floor, (long) Math.ceil((double) value / divisor), value - divisor * floor, Math.min(value, -2), Math.max(value, -2)};
        assertArrayEquals(expected, map.evaluate(value), "at " + value);
      }
      assertNull(map.evaluate(10));
    }
  }

  @Test
  void valuesNearTheEndsOfLong() {
    EvaluableMap map = map(ALL, ALL, X, Y, node("MULTIPLY", 0, 1), node("ADD", 0, 1), constant(Long.MAX_VALUE), constant(1000003), constant(2),
        node("FLOOR_DIVIDE", 2, 4), node("MODULO", 2, 5), node("CEIL_DIVIDE", 2, 4), node("FLOOR_DIVIDE", 3, 6),
        "results: [7, 8, 9, 10] constraints {expression: 3 bounds {lower: -9223372036854775808 upper: 9}}");
    Random random = new Random(1);
    long[] ends = {Long.MIN_VALUE + 2, Long.MIN_VALUE / 2, -1, 0, 1, 5, Long.MAX_VALUE / 2, Long.MAX_VALUE - 1, Long.MAX_VALUE};
    int count = 3000;
    long[] points = new long[2 * count];
    for (int i = 0; i < count; i++) {
      boolean isEnd = i < ends.length * ends.length;
      points[2 * i] = isEnd ? ends[i / ends.length] : random.nextLong() >> 1 + random.nextInt(63);
      points[2 * i + 1] = isEnd ? ends[i % ends.length] : random.nextLong() >> 1 + random.nextInt(63);
    }
    MapValues batch = map.evaluateBatch(points, count);
    BigInteger greatest = BigInteger.valueOf(Long.MAX_VALUE);
    for (int i = 0; i < count; i++) {
      BigInteger x = BigInteger.valueOf(points[2 * i]);
      BigInteger y = BigInteger.valueOf(points[2 * i + 1]);
      BigInteger product = x.multiply(y);
      BigInteger sum = x.add(y);
      boolean isInside = sum.bitLength() <= 63 && sum.longValue() <= 9;
      assertEquals(isInside, batch.inDomain()[i]);
      BigInteger[] parts = product.divideAndRemainder(greatest);
      long floor = parts[0].longValue() - (parts[1].signum() < 0 ? 1 : 0);
      long ceil = parts[0].longValue() + (parts[1].signum() > 0 ? 1 : 0);
      long[] expected = {floor, product.mod(BigInteger.valueOf(1000003)).longValue(), ceil, isInside ? sum.longValue() >> 1 : 0};
      long[] found = java.util.Arrays.copyOfRange(batch.results(), 4 * i, 4 * i + 4);
      assertArrayEquals(isInside ? expected : new long[4], found, x + ", " + y);
      long[] alone = map.evaluate(points[2 * i], points[2 * i + 1]);
      assertArrayEquals(isInside ? expected : null, alone);
    }
  }

  @Test
  void overflowsOfSumsAndProductsAreSeen() {
    EvaluableMap map = map(ALL, X, constant(2), node("MULTIPLY", 0, 1), "results: 2");
    assertEquals("SIZE_OVERFLOW", reasonOf(() -> map.evaluate(Long.MAX_VALUE)));
    assertArrayEquals(new long[] {Long.MAX_VALUE - 1}, map.evaluate(Long.MAX_VALUE / 2));
    EvaluableMap sum = map(ALL, X, node("ADD", 0, 0), "results: 1");
    assertEquals("SIZE_OVERFLOW", reasonOf(() -> sum.evaluate(Long.MIN_VALUE)));
    assertEquals("SIZE_OVERFLOW", reasonOf(() -> sum.evaluate(Long.MAX_VALUE)));
    assertArrayEquals(new long[] {Long.MIN_VALUE}, sum.evaluate(Long.MIN_VALUE / 2));
  }

  @Test
  void aPointOutsideIsNotRefusedForItsSize() {
    EvaluableMap map = map(dimension(0, 1), X, constant(1L << 62), node("MULTIPLY", 0, 1), "results: 2");
    assertNull(map.evaluate(Long.MAX_VALUE));
    MapValues values = map.evaluateBatch(new long[] {0, Long.MAX_VALUE, 1, -1}, 4);
    assertArrayEquals(new long[] {0, 0, 1L << 62, 0}, values.results());
    assertArrayEquals(new boolean[] {true, false, true, false}, values.inDomain());
  }

  @ParameterizedTest
  @ValueSource(strings = {
      "state: STATE_UNDEFINED",
      "expressions {kind: KIND_CONSTANT} expressions {kind: KIND_MODULO operands: [0, 0]}",
      "dimensions {} expressions {kind: KIND_DIMENSION} expressions {kind: KIND_FLOOR_DIVIDE operands: [0, 0]}",
      "expressions {kind: KIND_DIMENSION}"})
  void mapsWithoutValues(String text) {
    assertEquals("INVALID_MAP", reasonOf(() -> map(text)));
  }

  @Test
  void variablesOfAllKinds() {
    EvaluableMap map = map(dimension(0, 9), "ranges {bounds {upper: 3}} runtime {bounds {upper: 1}} ", X,
        "expressions {kind: KIND_RANGE} expressions {kind: KIND_RUNTIME} ", constant(4), node("MULTIPLY", 0, 3), node("ADD", 4, 1), node("ADD", 0, 1),
        "results: [5, 2] constraints {expression: 6 bounds {upper: 9}}");
    assertEquals(3, map.variables());
    assertEquals(2, map.results());
    assertArrayEquals(new long[] {27, 1}, map.evaluate(6, 3, 1));
    assertNull(map.evaluate(9, 3, 1));
    assertEquals("INVALID_INDEX", reasonOf(() -> map.evaluate(1, 2)));
    assertEquals("INVALID_INDEX", reasonOf(() -> map.evaluateBatch(new long[3], -1)));
    assertEquals("INVALID_INDEX", reasonOf(() -> map.evaluateBatch(new long[0], Integer.MAX_VALUE)));
    assertEquals(0, map.evaluateBatch(new long[0], 0).inDomain().length);
  }

  @Test
  void emptyMapsHaveNoPoints() {
    assertNull(map("state: STATE_KNOWN_EMPTY").evaluate());
    assertNull(map(dimension(3, 2), X, "results: 0").evaluate(3));
    assertArrayEquals(new long[] {7}, map(constant(7), "results: 0").evaluate());
  }

  @Test
  void nodesThatUseWhatIsNotBeforeThem() {
    IndexingMap map = message(dimension(0, 9), X, constant(1), node("ADD", 0, 1), "results: 2");
    for (int operand : new int[] {2, 3, -1}) {
      Expression later = Expression.newBuilder().setKind(Expression.Kind.KIND_ADD).addOperands(0).addOperands(operand).build();
      assertEquals("INVALID_MAP", reasonOf(() -> EvaluableMap.of(map.toBuilder().setExpressions(2, later).build())));
      assertEquals("INVALID_MAP", reasonOf(() -> EvaluableMap.of(map.toBuilder().setResults(0, operand < 0 ? -1 : 3).build())));
    }
    Expression unknown = Expression.newBuilder().setKindValue(99).build();
    assertEquals("INVALID_MAP", reasonOf(() -> EvaluableMap.of(map.toBuilder().setExpressions(2, unknown).build())));
    assertEquals("INVALID_MAP", reasonOf(() -> EvaluableMap.of(map.toBuilder().setStateValue(99).build())));
  }

  @Test
  void valuesThatGrowWithoutEndAreRefused() {
    IndexingMap.Builder map = message(dimension(0, 9), X, "results: 0").toBuilder();
    for (int i = 0; i < 40; i++) {
      map.addExpressions(Expression.newBuilder().setKind(Expression.Kind.KIND_MULTIPLY).addOperands(i).addOperands(i));
    }
    EvaluableMap growing = EvaluableMap.of(map.setResults(0, 40).build());
    assertEquals("SIZE_OVERFLOW", reasonOf(() -> growing.evaluate(9)));
    assertArrayEquals(new long[] {1}, growing.evaluate(1));
  }

  @Test
  void mapsOfManyNodes() {
    IndexingMap.Builder map = message(dimension(0, 9), X, "results: 0").toBuilder();
    for (int i = 0; i < 40_000; i++) {
      map.addExpressions(Expression.newBuilder().setKind(Expression.Kind.KIND_ADD).addOperands(i).addOperands(0));
    }
    MapValues values = EvaluableMap.of(map.setResults(0, 40_000).build()).evaluateBatch(new long[] {0, 1, 2, 10}, 4);
    assertArrayEquals(new long[] {0, 40_001, 80_002, 0}, values.results());
    assertTrue(values.inDomain()[2]);
  }
}
