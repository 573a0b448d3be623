package io.github.xlashape;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.github.xlashape.v1.Expression;
import io.github.xlashape.v1.Expression.Kind;
import io.github.xlashape.v1.IndexingMap;
import io.github.xlashape.v1.Interval;
import io.github.xlashape.v1.Variable;
import org.junit.jupiter.api.Test;

class EvaluableMapTest {
  /** d0 with any value, combined with 1. */
  private static IndexingMap.Builder message(Kind kind) {
    Interval.Builder all = Interval.newBuilder().setLower(Long.MIN_VALUE).setUpper(Long.MAX_VALUE);
    return IndexingMap.newBuilder()
        .addDimensions(Variable.newBuilder().setBounds(all))
        .addExpressions(Expression.newBuilder().setKind(Kind.KIND_DIMENSION))
        .addExpressions(Expression.newBuilder().setKind(Kind.KIND_CONSTANT).setValue(1))
        .addExpressions(Expression.newBuilder().setKind(kind).addOperands(0).addOperands(1))
        .addResults(2);
  }

  @Test
  void aMapThatDoesNotFitIsForTheServer() {
    IndexingMap large = message(Kind.KIND_ADD).build();
    assertEquals("SIZE_OVERFLOW", assertThrows(XlashapeException.class, () -> EvaluableMap.of(large)).getReason());
  }

  @Test
  void aMapThatLiesWrapsAround() {
    assertArrayEquals(new long[] {Long.MIN_VALUE}, EvaluableMap.of(message(Kind.KIND_ADD).setFitsInt64(true).build()).evaluate(Long.MAX_VALUE));
    assertArrayEquals(new long[] {Long.MAX_VALUE}, EvaluableMap.of(message(Kind.KIND_MULTIPLY).setFitsInt64(true).build()).evaluate(Long.MAX_VALUE));
  }
}
