package io.github.xlashape;

import com.google.common.primitives.Booleans;
import com.google.common.primitives.Longs;
import com.google.protobuf.Message;
import io.github.xlashape.v1.DescribeShapeRequest;
import io.github.xlashape.v1.IndexingMap;
import io.github.xlashape.v1.IndexingServiceGrpc;
import io.github.xlashape.v1.MapInput;
import io.github.xlashape.v1.ParseMapRequest;
import io.github.xlashape.v1.ShapeInput;
import io.github.xlashape.v1.ShapeServiceGrpc;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.stream.IntStream;

/** Many numbers: in one message if they are few, in the parts of a stream if they are not. */
final class Bulk {
  /** The numbers of one message: 2 MiB, half of what gRPC receives by default. */
  static final int UNARY_NUMBERS = 1 << 18;

  /** The questions of one message whose answers are several times as large. */
  static final int UNARY_ANSWERS = 1 << 14;

  private Bulk() {}

  /** How many numbers an index of an array has. */
  static CompletableFuture<Integer> width(Calls calls, ShapeInput shape) {
    DescribeShapeRequest request = DescribeShapeRequest.newBuilder().addShapes(shape).build();
    return calls.askAsync(
        ShapeServiceGrpc.getDescribeShapeMethod(), request, answer -> (int) Calls.only(answer.getDescriptionsList()).getRank());
  }

  /** How many numbers a point of a map has. The server reads a map in text. */
  static CompletableFuture<Integer> width(Calls calls, MapInput map) {
    ParseMapRequest request = ParseMapRequest.newBuilder().addMaps(map).build();
    CompletableFuture<IndexingMap> read = map.hasMap()
        ? CompletableFuture.completedFuture(map.getMap())
        : calls.askAsync(IndexingServiceGrpc.getParseMapMethod(), request, answer -> Calls.only(answer.getMapsList()).getMap());
    return read.thenApply(message -> message.getDimensionsCount() + message.getRangesCount() + message.getRuntimeCount());
  }

  /**
   * The messages of a stream, each with whole rows of `width` numbers, and with about `most` numbers. `fill` adds the numbers to `first`, which has all else
   * that the first message says, and nothing for the messages after it.
   */
  static <Q, B extends Message.Builder> Iterator<Q> parts(long[] numbers, int width, long most, B first, BiFunction<B, List<Long>, Q> fill) {
    int row = Math.max(width, 1);
    int size = (int) Math.min(Math.max(most / row, 1) * row, numbers.length);
    return IntStream.rangeClosed(0, (numbers.length - 1) / size).map(i -> i * size).mapToObj(start -> {
      Q part = fill.apply(first, Longs.asList(numbers).subList(start, start + Math.min(size, numbers.length - start)));
      first.clear();
      return part;
    }).iterator();
  }

  /** The numbers of all answers. */
  static <A> long[] longs(List<A> answers, Function<A, List<Long>> numbers) {
    return answers.stream().flatMapToLong(answer -> numbers.apply(answer).stream().mapToLong(Long::longValue)).toArray();
  }

  /** The flags of all answers. */
  static <A> boolean[] booleans(List<A> answers, Function<A, List<Boolean>> flags) {
    return Booleans.toArray(answers.stream().flatMap(answer -> flags.apply(answer).stream()).toList());
  }
}
