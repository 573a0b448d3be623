package io.github.xlashape;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.github.xlashape.v1.DescribeShapeRequest;
import io.github.xlashape.v1.EvaluateMapBatchRequest;
import io.github.xlashape.v1.EvaluateMapBatchResponse;
import io.github.xlashape.v1.EvaluateMapRequest;
import io.github.xlashape.v1.GetModuleRequest;
import io.github.xlashape.v1.HloServiceGrpc;
import io.github.xlashape.v1.IndexingServiceGrpc;
import io.github.xlashape.v1.LinearIndexRequest;
import io.github.xlashape.v1.LinearIndicesRequest;
import io.github.xlashape.v1.LinearIndicesResponse;
import io.github.xlashape.v1.LinearOrder;
import io.github.xlashape.v1.MapInput;
import io.github.xlashape.v1.MultiIndexRequest;
import io.github.xlashape.v1.MultiIndicesRequest;
import io.github.xlashape.v1.MultiIndicesResponse;
import io.github.xlashape.v1.PutModuleRequest;
import io.github.xlashape.v1.ShapeInput;
import io.github.xlashape.v1.ShapeServiceGrpc;
import io.github.xlashape.v1.UploadModuleRequest;
import io.grpc.Status;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.AbstractList;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.stream.IntStream;

/** Questions of any size: in one message if they are small, as a stream if they are not. */
final class Bulk {
  /** The numbers of one message: 2 MiB, half of what gRPC receives by default. */
  private static final int UNARY_NUMBERS = 1 << 18;

  /** The questions of one message whose answers are several times as large. */
  private static final int UNARY_ANSWERS = 1 << 14;

  /** The bytes of a part of a module. */
  static final int PART_BYTES = 1 << 20;

  private Bulk() {}

  static CompletableFuture<long[]> linearIndices(Calls calls, ShapeInput shape, LinearOrder order, long[] indices) {
    if (indices.length <= UNARY_NUMBERS) {
      LinearIndexRequest request = LinearIndexRequest.newBuilder().setShape(shape).setOrder(order).addAllIndices(list(indices)).build();
      return calls.askAsync(ShapeServiceGrpc.getLinearIndexMethod(), request, answer -> longs(List.of(answer.getPositionsList())));
    }
    LinearIndicesRequest first = LinearIndicesRequest.newBuilder().setShape(shape).setOrder(order).build();
    return withRank(calls, shape, rank -> calls.exchange(
        ShapeServiceGrpc.getLinearIndicesMethod(),
        parts(indices.length, rank, UNARY_NUMBERS, (start, end) ->
            (start == 0 ? first.toBuilder() : LinearIndicesRequest.newBuilder()).addAllIndices(list(indices).subList(start, end)).build()),
        answers -> longs(lists(answers, LinearIndicesResponse::getPositionsList))));
  }

  static CompletableFuture<ElementIndices> multiIndices(Calls calls, ShapeInput shape, LinearOrder order, long[] positions) {
    if (positions.length <= UNARY_ANSWERS) {
      MultiIndexRequest request = MultiIndexRequest.newBuilder().setShape(shape).setOrder(order).addAllPositions(list(positions)).build();
      return calls.askAsync(ShapeServiceGrpc.getMultiIndexMethod(), request,
          answer -> new ElementIndices(longs(List.of(answer.getIndicesList())), booleans(List.of(answer.getIsElementList()))));
    }
    MultiIndicesRequest first = MultiIndicesRequest.newBuilder().setShape(shape).setOrder(order).build();
    return withRank(calls, shape, rank -> calls.exchange(
        ShapeServiceGrpc.getMultiIndicesMethod(),
        parts(positions.length, 1, UNARY_NUMBERS / (rank + 1), (start, end) ->
            (start == 0 ? first.toBuilder() : MultiIndicesRequest.newBuilder()).addAllPositions(list(positions).subList(start, end)).build()),
        answers -> new ElementIndices(
            longs(lists(answers, MultiIndicesResponse::getIndicesList)), booleans(lists(answers, MultiIndicesResponse::getIsElementList)))));
  }

  static CompletableFuture<MapValues> evaluateMap(Calls calls, MapInput map, long[] points) {
    if (points.length <= UNARY_ANSWERS) {
      EvaluateMapRequest request = EvaluateMapRequest.newBuilder().setMap(map).addAllPoints(list(points)).build();
      return calls.askAsync(IndexingServiceGrpc.getEvaluateMapMethod(), request,
          answer -> new MapValues(longs(List.of(answer.getResultsList())), booleans(List.of(answer.getInDomainList()))));
    }
    int width;
    try {
      width = map.hasMap()
          ? map.getMap().getDimensionsCount() + map.getMap().getRangesCount() + map.getMap().getRuntimeCount()
          : EvaluableMap.parse(map.getText()).variables();
    } catch (XlashapeException e) {
      return CompletableFuture.failedFuture(e);
    }
    EvaluateMapBatchRequest first = EvaluateMapBatchRequest.newBuilder().setMap(map).build();
    return calls.exchange(
        IndexingServiceGrpc.getEvaluateMapBatchMethod(),
        parts(points.length, width, (long) UNARY_ANSWERS * Math.max(width, 1), (start, end) ->
            (start == 0 ? first.toBuilder() : EvaluateMapBatchRequest.newBuilder()).addAllPoints(list(points).subList(start, end)).build()),
        answers -> new MapValues(
            longs(lists(answers, EvaluateMapBatchResponse::getResultsList)), booleans(lists(answers, EvaluateMapBatchResponse::getInDomainList))));
  }

  static CompletableFuture<Upload> upload(Calls calls, byte[] content) {
    String digest = sha256(content);
    GetModuleRequest known = GetModuleRequest.newBuilder().setName("modules/" + digest).build();
    return Calls.chain(
        calls.askAsync(HloServiceGrpc.getGetModuleMethod(), known, answer -> new Upload(answer.getModule(), false)),
        CompletableFuture::completedFuture,
        error -> error.getCode() == Status.Code.NOT_FOUND ? send(calls, content, digest) : CompletableFuture.failedFuture(error));
  }

  private static CompletableFuture<Upload> send(Calls calls, byte[] content, String digest) {
    if (content.length <= PART_BYTES) {
      PutModuleRequest request = PutModuleRequest.newBuilder().setData(UnsafeByteOperations.unsafeWrap(content)).setSha256(digest).build();
      return calls.askAsync(HloServiceGrpc.getPutModuleMethod(), request, answer -> new Upload(answer.getModule(), true));
    }
    UploadModuleRequest first = UploadModuleRequest.newBuilder().setSha256(digest).setSizeBytes(content.length).build();
    return calls.exchange(
        HloServiceGrpc.getUploadModuleMethod(),
        parts(content.length, 1, PART_BYTES, (start, end) ->
            (start == 0 ? first.toBuilder() : UploadModuleRequest.newBuilder()).setData(ByteString.copyFrom(content, start, end - start)).build()),
        answers -> new Upload(Calls.only(answers).getModule(), true));
  }

  static String sha256(byte[] content) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(content));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }

  private static <R> CompletableFuture<R> withRank(Calls calls, ShapeInput shape, Function<Integer, CompletableFuture<R>> next) {
    DescribeShapeRequest request = DescribeShapeRequest.newBuilder().addShapes(shape).build();
    return Calls.chain(
        calls.askAsync(
            ShapeServiceGrpc.getDescribeShapeMethod(), request, answer -> (int) Calls.only(answer.getDescriptionsList()).getRank()),
        next,
        CompletableFuture::failedFuture);
  }

  private interface Part<Q> {
    Q of(int start, int end);
  }

  /** The messages of a stream, each with whole rows of `width` of the `count` items, and with about `most` items. */
  private static <Q> Iterator<Q> parts(int count, int width, long most, Part<Q> part) {
    int row = Math.max(width, 1);
    int size = (int) Math.min(Math.max(most / row, 1) * row, count);
    return IntStream.rangeClosed(0, (count - 1) / size)
        .map(i -> i * size)
        .mapToObj(start -> part.of(start, start + Math.min(size, count - start)))
        .iterator();
  }

  private static List<Long> list(long[] numbers) {
    return new AbstractList<>() {
      @Override
      public Long get(int i) {
        return numbers[i];
      }

      @Override
      public int size() {
        return numbers.length;
      }
    };
  }

  private static <A, T> List<List<T>> lists(List<A> answers, Function<A, List<T>> list) {
    return answers.stream().map(list).toList();
  }

  private static int size(List<? extends List<?>> lists) {
    return Math.toIntExact(lists.stream().mapToLong(List::size).sum());
  }

  private static long[] longs(List<List<Long>> lists) {
    long[] all = new long[size(lists)];
    int count = 0;
    for (List<Long> list : lists) {
      for (long one : list) {
        all[count++] = one;
      }
    }
    return all;
  }

  private static boolean[] booleans(List<List<Boolean>> lists) {
    boolean[] all = new boolean[size(lists)];
    int count = 0;
    for (List<Boolean> list : lists) {
      for (boolean one : list) {
        all[count++] = one;
      }
    }
    return all;
  }
}
