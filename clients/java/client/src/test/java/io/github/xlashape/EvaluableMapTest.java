package io.github.xlashape;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.xlashape.v1.Expression;
import io.github.xlashape.v1.IndexingMap;
import java.math.BigInteger;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class EvaluableMapTest {
  private static String reasonOf(Runnable action) {
    return assertThrows(XlashapeException.class, action::run).getReason();
  }

  @Test
  void divisionsOfNegativeNumbers() {
    for (long divisor : new long[] {3, 4}) { // powers of two have a way of their own
      EvaluableMap map = EvaluableMap.parse(
          "(d0) -> (d0 floordiv %1$d, d0 ceildiv %1$d, d0 mod %1$d, min(d0, -2), max(d0, -2)), domain: d0 in [-9, 9]".formatted(divisor));
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
    EvaluableMap map = EvaluableMap.parse("""
        (d0, d1) -> ((d0 * d1) floordiv 9223372036854775807, (d0 * d1) mod 1000003, (d0 * d1) ceildiv 9223372036854775807, (d0 + d1) floordiv 2),
        domain: d0 in [-9223372036854775808, 9223372036854775807], d1 in [-9223372036854775808, 9223372036854775807],
        d0 + d1 in [-9223372036854775808, 9]""");
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
    EvaluableMap map = EvaluableMap.parse("(d0) -> (d0 * 2), domain: d0 in [0, 9223372036854775807]");
    assertEquals("SIZE_OVERFLOW", reasonOf(() -> map.evaluate(Long.MAX_VALUE)));
    assertArrayEquals(new long[] {Long.MAX_VALUE - 1}, map.evaluate(Long.MAX_VALUE / 2));
    EvaluableMap sum = EvaluableMap.parse("(d0) -> (d0 + d0), domain: d0 in [-9223372036854775808, 9223372036854775807]");
    assertEquals("SIZE_OVERFLOW", reasonOf(() -> sum.evaluate(Long.MIN_VALUE)));
    assertEquals("SIZE_OVERFLOW", reasonOf(() -> sum.evaluate(Long.MAX_VALUE)));
    assertArrayEquals(new long[] {Long.MIN_VALUE}, sum.evaluate(Long.MIN_VALUE / 2));
  }

  @Test
  void aPointOutsideIsNotRefusedForItsSize() {
    EvaluableMap map = EvaluableMap.parse("(d0) -> (d0 * 4611686018427387904), domain: d0 in [0, 1]");
    assertNull(map.evaluate(Long.MAX_VALUE));
    MapValues values = map.evaluateBatch(new long[] {0, Long.MAX_VALUE, 1, -1}, 4);
    assertArrayEquals(new long[] {0, 0, 1L << 62, 0}, values.results());
    assertArrayEquals(new boolean[] {true, false, true, false}, values.inDomain());
  }

  @ParameterizedTest
  @ValueSource(strings = {
      "(d0) -> (d1), domain: d0 in [0, 3]",
      "(d0) -> (d0)",
      "(d0, d0) -> (d0), domain: d0 in [0, 3]",
      "(d0) -> (d0, domain: d0 in [0, 3]",
      "",
      "(d0) -> (99999999999999999999), domain: d0 in [0, 3]",
      "(d0) -> (-99999999999999999999), domain: d0 in [0, 3]",
      "(d0) -> (d0), domain: d0 in [0, 3] and more",
      "(d0) -> (\u00fc), domain: d0 in [0, 3]",
      "(d0) -> ((d0, d0)), domain: d0 in [0, 3]",
      "(d0) -> (min(d0)), domain: d0 in [0, 3]",
      "(d0) -> (min(d0, d0, d0)), domain: d0 in [0, 3]",
      "(d0) -> (d0 d0), domain: d0 in [0, 3]",
      "(d0) -> (d0 +), domain: d0 in [0, 3]",
      "(d0) -> (3d0), domain: d0 in [0, 3]"})
  void mistakesInText(String text) {
    assertEquals("PARSE", reasonOf(() -> EvaluableMap.parse(text)));
  }

  @ParameterizedTest
  @ValueSource(strings = {"UNDEFINED", "(d0) -> (d0 mod 0), domain: d0 in [0, 3]", "(d0) -> (7 / d0), domain: d0 in [0, 3]",
      "(d0) -> (d0 mod (2 - 2)), domain: d0 in [0, 3]"})
  void mapsWithoutValues(String text) {
    assertEquals("INVALID_MAP", reasonOf(() -> EvaluableMap.parse(text)));
  }

  @Test
  void mistakesSayWhere() {
    XlashapeException refused =
        assertThrows(XlashapeException.class, () -> EvaluableMap.parse("(d0) -> (d0),\ndomain: d0 in [0, ?]"));
    assertEquals("line 2, column 19: expected an integer of 64 bits, found '?' (PARSE)", refused.getMessage());
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
      "-d0 * 3 | -6",
      "2 - d0 - 5 | -5",
      "2 - (d0 - 5) | 5",
      "d0 + 7 * d0 | 16",
      "-d0 floordiv 4 | -1",
      "-(d0 floordiv 4) | 0",
      "7 - d0 mod 2 | 7",
      "min(d0, -max(d0, 3) + 1) * 2 | -4",
      "- - -d0 | -2",
      "-9223372036854775808 + d0 | -9223372036854775806",
      "17 / 4 / d0 | 2",
      "17 ceildiv 4 mod 3 | 2",
      "9 * d0 mod (2 * 2) | 2",
      "-9 * d0 floordiv (3 - -1) | -5",
      "9 * d0 ceildiv max(-7, min(4, 5)) | 5",
      "7 * d0 mod (9 mod (17 ceildiv 4)) | 2"})
  void operatorsBindAsInArithmetic(String expression, long expected) {
    // A divisor has to be a constant.
    String text = "(d0) -> (%s), domain: d0 in [2, 2]".formatted(expression.replace("/ d0", "/ 2"));
    assertArrayEquals(new long[] {expected}, EvaluableMap.parse(text).evaluate(2));
  }

  @Test
  void constantsAreOneConstant() {
    IndexingMap map = EvaluableMap.parse("() -> (2 * (3 + 4) - 9223372036854775807, 9223372036854775807 * 2 floordiv 4)").message();
    assertEquals(Expression.newBuilder().setKind(Expression.Kind.KIND_CONSTANT).setValue(-9223372036854775793L).build(),
        map.getExpressions(map.getResults(0)));
    assertArrayEquals(new long[] {-9223372036854775793L, 4611686018427387903L}, EvaluableMap.of(map).evaluate());
  }

  @Test
  void expressionsOfBoundedDepth() {
    String parentheses = "(d0) -> (" + "(".repeat(900) + "d0" + ")".repeat(900) + "), domain: d0 in [0, 3]";
    assertArrayEquals(new long[] {3}, EvaluableMap.parse(parentheses).evaluate(3));
    String signs = "(d0) -> (" + "-".repeat(901) + "d0), domain: d0 in [0, 3]";
    assertArrayEquals(new long[] {-3}, EvaluableMap.parse(signs).evaluate(3));
    for (String token : new String[] {"(", "-"}) {
      String deep = "(d0) -> (" + token.repeat(100_000) + "d0), domain: d0 in [0, 3]";
      assertEquals("PARSE", reasonOf(() -> EvaluableMap.parse(deep)));
    }
  }

  @Test
  void rangesRuntimeVariablesAndTheirSources() {
    EvaluableMap map = EvaluableMap.parse("""
        (d0)[s0]{rt0} -> (d0 * 4 + s0, rt0),
        domain: d0 in [0, 9], s0 in [0, 3], rt0 in [0, 1], d0 + s0 in [0, 9], is_simplified: true
        runtime variables:
        rt0: anything""");
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
    assertNull(EvaluableMap.parse(" KNOWN\nEMPTY ").evaluate());
    assertNull(EvaluableMap.parse("(d0) -> (d0), domain: d0 in [3, 2]").evaluate(3));
    assertArrayEquals(new long[] {7}, EvaluableMap.parse("() -> (7)").evaluate());
  }

  @Test
  void nodesThatUseWhatIsNotBeforeThem() {
    IndexingMap map = EvaluableMap.parse("(d0) -> (d0 + 1), domain: d0 in [0, 9]").message();
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
    IndexingMap.Builder map = EvaluableMap.parse("(d0) -> (d0), domain: d0 in [0, 9]").message().toBuilder();
    for (int i = 0; i < 40; i++) {
      map.addExpressions(Expression.newBuilder().setKind(Expression.Kind.KIND_MULTIPLY).addOperands(i).addOperands(i));
    }
    EvaluableMap growing = EvaluableMap.of(map.setResults(0, 40).build());
    assertEquals("SIZE_OVERFLOW", reasonOf(() -> growing.evaluate(9)));
    assertArrayEquals(new long[] {1}, growing.evaluate(1));
  }

  @Test
  void mapsOfManyNodes() {
    IndexingMap.Builder map = EvaluableMap.parse("(d0) -> (d0), domain: d0 in [0, 9]").message().toBuilder();
    for (int i = 0; i < 40_000; i++) {
      map.addExpressions(Expression.newBuilder().setKind(Expression.Kind.KIND_ADD).addOperands(i).addOperands(0));
    }
    MapValues values = EvaluableMap.of(map.setResults(0, 40_000).build()).evaluateBatch(new long[] {0, 1, 2, 10}, 4);
    assertArrayEquals(new long[] {0, 40_001, 80_002, 0}, values.results());
    assertTrue(values.inDomain()[2]);
  }
}
